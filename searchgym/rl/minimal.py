"""GRPO on search episodes in one file, to be read from top to bottom.

Each step takes a few questions, lets the policy play each one several times, and compares every
episode's return with those of the same question. Tokens of episodes that did better than their
group become likelier, those of worse ones less likely; ratios are clipped as in PPO. Only tokens
that the policy wrote are trained on: questions and search results are read, not learnt.

Left out, and found in ``trainer.py``: other methods, KL to a reference, dynamic sampling, memory
for large models (everything goes through the model at once), checkpoints, logs, warnings.

Source: Shao et al., "DeepSeekMath" (arXiv 2402.03300), §4.1. An example that runs in seconds, with
an untrained model that learns nothing in two steps; put ``TrainableLM("path/to/model")`` there::

    from searchgym.envs.search import SearchEnv
    from searchgym.llms.base import Sampling
    from searchgym.llms.small import small_model, train_tokenizer
    from searchgym.policies.trainable import TrainableLM
    from searchgym.rl.minimal import Config, grpo

    env = SearchEnv(world={"entities": 60}, tasks={"simple": 4}, reward="f1")
    tokenizer = train_tokenizer(task.question for task in env.tasks)
    lm = TrainableLM(small_model(tokenizer, width=32), tokenizer)
    policy = lm.policy("plain", sampling=Sampling(max_tokens=8))
    for metrics in grpo(env, lm, policy, Config(steps=2, tasks=2, group=2)):
        print(metrics)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.episode import Episode
from ..core.rollout import run_episodes
from ..envs.search import SearchEnv
from ..policies.causal_lm import CausalLMPolicy
from ..policies.rows import TrainingRow
from ..policies.trainable import TrainableLM
from ..seeding import derive, stream
from .ops.groups import alike, all_alike


@dataclass(frozen=True, slots=True)
class Config:
    """Every hyperparameter."""

    steps: int = 100
    tasks: int = 8
    """Questions per step."""
    group: int = 8
    """Episodes per question."""
    epochs: int = 1
    """Updates on the same episodes; with one, no ratio is ever clipped."""
    lr: float = 1e-6
    clip: float = 0.2
    """The ratio's distance from 1 beyond which a token earns nothing more."""
    max_norm: float = 1.0
    """Gradient clipping threshold (L2 norm)."""
    eps: float = 1e-6
    """Number added to a group's standard deviation."""
    seed: int = 0


def grpo(
    env: SearchEnv, lm: TrainableLM, policy: CausalLMPolicy, config: Config
) -> Iterator[dict[str, float]]:
    """Train ``lm``, over whose weights ``policy`` acts; yields each step's metrics.

    Equal seeds give equal numbers on one machine with as many threads.
    """
    # betas as in language modelling; no weight decay, which would pull the policy nowhere useful
    optimizer = torch.optim.AdamW(
        lm.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    for step in range(config.steps):
        # 1. play: every group of every question at once, turn by turn, in one batch
        groups = start(env, config, step)
        episodes = [episode for group in groups for episode in group]
        run_episodes(episodes, policy, env.toolbox, batch=len(episodes))

        # 2. reward, and how it compares within the group
        reward = torch.tensor([[total(e) for e in group] for group in groups])  # (Q, G)
        adv = advantages(reward, config.eps).flatten()  # (Q · G,)

        # 3. token ids as they were sampled; an episode whose context was edited has several rows
        played = [(e, a) for e, a in zip(episodes, adv.tolist(), strict=True) if not broken(e)]
        rows = [(row, a) for e, a in played for row in policy.rows(e)]
        policy.forget(e.config.episode_id for e in episodes)
        metrics = measure(episodes, reward)
        if not rows:  # the engine was down for all
            yield {"step": float(step), **metrics}
            continue

        # 4. update
        owner = [row.trajectory_id for row, _ in rows]
        mask = masks([row for row, _ in rows])  # (R, T)
        row_adv = torch.tensor([a for _, a in rows])[:, None]  # (R, 1)
        old: Tensor | None = None
        for _ in range(config.epochs):
            logp = lm.logp([row for row, _ in rows]).cpu()  # (R, T)
            old = logp.detach() if old is None else old  # of the policy that played
            loss, clipped = surrogate(logp, old, row_adv, mask, owner, config.clip)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(lm.parameters(), config.max_norm)
            optimizer.step()
            metrics |= {
                "loss": float(loss.detach()),
                "clip_frac": clipped,
                "grad_norm": float(norm),
            }
        policy.weights_changed()
        yield {"step": float(step), **metrics}


def start(env: SearchEnv, config: Config, step: int) -> list[list[Episode]]:
    """``config.group`` episodes of each of a step's questions. Which, and with what luck, depends
    on the seed and the step alone: all questions in random order, then all in another."""
    groups: list[list[Episode]] = []
    for place in range(config.tasks):
        epoch, at = divmod(step * config.tasks + place, len(env.tasks))
        order = stream(config.seed, "order", epoch).permutation(len(env.tasks))
        key = derive(config.seed, "plan", step, place)
        groups.append(
            [
                env.start(
                    derive(key, "episode", member),
                    task=env.tasks[int(order[at])],
                    # the policy draws its tokens by this name
                    episode_id=f"{step}.{place}.{member}",
                )
                for member in range(config.group)
            ]
        )
    return groups


def broken(episode: Episode) -> bool:
    """The infrastructure failed: not the policy's fault, nothing to learn from."""
    outcome = episode.outcome()
    return outcome is not None and outcome.end == "infra_error"


def total(episode: Episode) -> float:
    """The return: the environment's reward (EM, F1 …) summed over turns; NaN for a broken one."""
    return float("nan") if broken(episode) else sum(turn.reward for turn in episode.turns)


def advantages(reward: Tensor, eps: float) -> Tensor:
    """(Q, G) (reward - the group's mean) / (its standard deviation + eps); broken ones get 0.

    A group whose rewards are all equal says nothing: exactly 0, not rounding noise over ``eps``.
    """
    known = ~reward.isnan()
    count = known.sum(1, keepdim=True)
    filled = torch.where(known, reward, torch.zeros_like(reward))
    mean = filled.sum(1, keepdim=True) / count.clamp_min(1)
    apart = torch.where(known, filled - mean, torch.zeros_like(reward))
    std = (apart.square().sum(1, keepdim=True) / (count - 1).clamp_min(1)).sqrt()
    high = torch.where(known, reward, torch.full_like(reward, -torch.inf)).amax(1, keepdim=True)
    low = torch.where(known, reward, torch.full_like(reward, torch.inf)).amin(1, keepdim=True)
    return torch.where(alike(low, high), torch.zeros_like(reward), apart / (std + eps))


def masks(rows: list[TrainingRow]) -> Tensor:
    """(R, T) bool: which tokens are trained on."""
    width = max(len(row) for row in rows)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for line, row in zip(mask, rows, strict=True):
        line[: len(row)] = torch.from_numpy(row.loss_mask)
    return mask


def surrogate(
    logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, owner: list[str], clip: float
) -> tuple[Tensor, float]:
    """PPO's clipped surrogate: mean over episodes of the mean over each one's tokens.

    Args:
        logp, old, mask: (R, T). adv: (R, 1).
        owner: each row's episode.

    Returns:
        The loss, and the share of tokens whose ratio was clipped.
    """
    ratio = torch.where(mask, logp - old, torch.zeros_like(logp)).exp()
    plain, limited = -adv * ratio, -adv * ratio.clamp(1 - clip, 1 + clip)
    worse = torch.where(mask, torch.maximum(plain, limited), torch.zeros_like(ratio))
    names = {name: i for i, name in enumerate(dict.fromkeys(owner))}
    place = torch.tensor([names[name] for name in owner])
    zero = torch.zeros(len(names))
    sums = zero.index_add(0, place, worse.sum(1))
    lengths = zero.index_add(0, place, mask.sum(1).float())
    alive = (lengths > 0).sum().clamp_min(1)
    clipped = ((limited > plain) & mask).sum() / mask.sum().clamp_min(1)
    return (sums / lengths.clamp_min(1)).sum() / alive, float(clipped)


def measure(episodes: list[Episode], reward: Tensor) -> dict[str, float]:
    """Metrics of one step."""
    ended = [e.outcome() for e in episodes]
    return {
        "reward": float(reward.nanmean()),
        "em": float(np.mean([o.parts.get("em", 0.0) if o else 0.0 for o in ended])),
        "searches": float(np.mean([e.queries for e in episodes])),
        "frac_reward_zero_std": float(np.mean([all_alike(g.numpy()) for g in reward])),
    }
