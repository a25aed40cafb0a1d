"""Collapses on purpose: trainings of the learning bench that go wrong for a known reason, declared
in ``collapses.toml``, each with the remedy that mends it."""

from __future__ import annotations

import copy
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from searchgym.errors import check_known
from searchgym.llms.base import Sampling
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.rows import TrainingRow
from searchgym.policies.trainable import TrainableLM
from searchgym.rewards import Outcome
from searchgym.rl.recipe import Recipe, TrainConfig
from searchgym.rl.recipe_files import read
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.protocols import Coef, RewardTransform
from searchgym.rl.slots.records import Group, Rewards, Signals, TaskPlan, Workers
from searchgym.rl.trainer import Trainer
from searchgym.seeding import stream

from .gradients import with_size
from .learning_bench import Course, setting, warm
from .world import chain_tasks, lab_env

STEPS, TASKS, SIZE = 32, 6, 6
"""Updates of a training, and questions and episodes of each in one update."""
COURSE = Course(questions=TASKS, tasks=TASKS, size=SIZE)
_HERE = "searchgym_agents.lab.collapses:"


@cache
def declared() -> dict[str, dict[str, Any]]:
    """Name of a cause → how it is reproduced."""
    page = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tomllib.loads(page)


def reproduce(
    name: str, out: Path, seed: int = 0, *, mended: bool = False, method: str = "grpo",
    lr: float = COURSE.lr, world: int = COURSE.seed,
) -> Path:  # fmt: skip
    """Train with a cause of collapse, or, ``mended``, with its remedy; the log is in ``out``.

    Args:
        name: A cause of ``collapses.toml``; ``""``: a sound training by ``method`` and ``lr``.
        world: Seed of the facts, the questions and the model's start.
    """
    if name:
        check_known("collapse", declared(), name)
    case = dict(declared()[name]) if name else {}
    remedy = case.pop("remedy", {})
    if mended:
        case = {**case, **remedy}
    course = replace(COURSE, seed=world, warm_steps=case.get("warm_steps", COURSE.warm_steps))
    recipe = Recipe.of(with_size({**read(method), **case.get("recipe", {})}, SIZE))
    config = TrainConfig.of(recipe, **{
        "steps": STEPS, "tasks": TASKS, "lr": lr, "seed": seed, "agreement": np.inf,
        "save_every": STEPS, **case.get("train", {}),
    })  # fmt: skip
    graph, _ = setting(course)
    reward = {
        part: {"use": _HERE + part, "weight": weight} if part in globals() else weight
        for part, weight in case.get("reward", {"em": 1.0}).items()
    }
    each = dict.fromkeys(course.hops, course.questions // len(course.hops))
    env = lab_env(graph, chain_tasks(graph, each), **{"reward": reward, **case.get("env", {})})
    tokenizer, model = warm(course.start)
    lm = TrainableLM(copy.deepcopy(model), tokenizer, reference=recipe.needs("ref_logp"))
    sampling = Sampling(max_tokens=case.get("tokens", course.max_tokens))
    if "weights" in case:
        generator = Lagging(copy.deepcopy(model), tokenizer, **case["weights"])
        policy = CausalLMPolicy(generator, "bare", sampling=sampling, seed=seed)
    else:
        policy = lm.policy("bare", sampling=sampling, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(env, lm, recipe, config, policy=policy, out=out)
        for _ in trainer.train():
            pass
    return out


# --- what goes wrong ------------------------------------------------------------------------------
def verbosity(outcome: Outcome) -> float:
    """Characters that the policy wrote, in hundreds."""
    return sum(len(turn.text) for turn in outcome.turns) / 100


def form(outcome: Outcome) -> float:
    """1 for two searches and an answer, whatever they are: the form of a demonstration."""
    return float(outcome.answered and outcome.searches == 2)


def hits(outcome: Outcome) -> float:
    """Results of all searches, the same ones included."""
    return float(len(outcome.hits))


def wrong(outcome: Outcome) -> float:
    """1 for an answer that is wrong; 0 for none."""
    return float(outcome.answered and not outcome.em)


def unfinished(outcome: Outcome) -> float:
    """1 for an episode without an answer."""
    return float(not outcome.answered)


class CoinFlips(RewardTransform):
    """Replaces a ``share`` of the rewards by the flips of a coin, as an unsure judge does."""

    def __init__(self, share: float = 0.9) -> None:
        self.share = share

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        draw = stream(group.plan.key, "coins")
        flipped = draw.random(len(rewards.outcome)) < self.share
        coins = draw.integers(2, size=len(rewards.outcome)).astype(float)
        return replace(rewards, outcome=np.where(flipped, coins, rewards.outcome))


class Unmasked(Chains):
    """Chains whose search results are trained on as if the policy had written them."""

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        import torch

        groups = []
        for group in super().collect(plans, workers):
            rows = [[_unmasked(row) for row in m.rows] for m in group.members]
            flat = [row for own in rows for row in own]
            with torch.no_grad():
                logp = workers.lm.logp(flat).cpu().numpy()
            scored = iter(zip(flat, logp, strict=True))
            members = tuple(
                replace(m, rows=tuple(
                    replace(row, logp=values[: len(row)]) for row, values in
                    (next(scored) for _ in own)
                ))
                for m, own in zip(group.members, rows, strict=True)
            )  # fmt: skip
            groups.append(replace(group, members=members))
        return groups


def _unmasked(row: TrainingRow) -> TrainingRow:
    """A row in which what stands between two turns belongs to the later one."""
    first = int(np.flatnonzero(row.sampled)[0])
    sampled = np.arange(len(row)) >= first
    at = np.flatnonzero(row.sampled)
    owner = at[np.searchsorted(at, np.arange(len(row)).clip(max=at[-1]))]
    turn = np.where(sampled, row.turn_of_token[owner], -1)
    version = np.where(sampled, row.version[owner], -1)
    return replace(row, sampled=sampled, loss_mask=sampled, turn_of_token=turn, version=version)


class Lagging(TransformersGenerator):
    """A player that takes over new weights at every ``lag``-th update only, and rounded."""

    def __init__(self, model: Any, tokenizer: Any, *, lag: int = 1, rounded: str = "") -> None:
        super().__init__(model, tokenizer)
        self.lag, self.updates, self.rounded = lag, 0, rounded

    def update_weights(self, weights: Mapping[str, Any]) -> int:
        import torch

        self.updates += 1
        if self.updates % self.lag == 0:
            if self.rounded:
                half = getattr(torch, self.rounded)
                weights = {n: w.to(half).to(w.dtype) for n, w in weights.items()}
            super().update_weights(weights)
            self.version = self.updates
        return self.version
