"""The registry by other means: gradients by a forward pass of the test's own, row by row, on
episodes of unequal lengths and turns; accumulation; and resuming after a stop at three moments.
Prints what agreed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from searchgym.rl.recipe_files import shipped
from searchgym.rl.trainer import Trainer
from tests.rl import test_as_shipped
from tests.rl.test_as_shipped import weights

pytestmark = pytest.mark.slow
EPS = 1e-6


def grpo(reward: Tensor, tokens: Tensor) -> Tensor:
    return (reward - reward.mean()) / (reward.std() + EPS)


def centred(reward: Tensor, tokens: Tensor) -> Tensor:
    return reward - reward.mean()


def left_out(reward: Tensor, tokens: Tensor) -> Tensor:
    return torch.stack([r - (reward.sum() - r) / (len(reward) - 1) for r in reward])


def by_length(reward: Tensor, tokens: Tensor) -> Tensor:
    return reward - (tokens * reward).sum() / tokens.sum()


def token_mean(terms: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(terms)).mean()


def episode_mean(terms: Sequence[Tensor]) -> Tensor:
    return torch.stack([t.mean() for t in terms if len(t)]).mean()


def episode_sum(terms: Sequence[Tensor]) -> Tensor:
    return torch.stack([t.sum() for t in terms if len(t)]).mean()


def constant(terms: Sequence[Tensor]) -> Tensor:
    return episode_sum(terms) / 1024


FORMULAS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], float, float]] = {
    "grpo": (grpo, episode_mean, 0, 0),
    "grpo_kl": (grpo, episode_mean, 0.04, 0),
    "search_r1_grpo": (grpo, token_mean, 0.001, 0.001),
    "zerosearch": (grpo, token_mean, 0.001, 0.001),
    "ssrl": (grpo, token_mean, 0.001, 0),
    "dapo": (grpo, token_mean, 0, 0),
    "cispo": (grpo, token_mean, 0, 0),
    "grpo_tis": (grpo, token_mean, 0, 0),
    "gspo": (grpo, episode_mean, 0, 0),
    "dr_grpo": (centred, constant, 0, 0),
    "rloo": (left_out, episode_sum, 0, 0),
    "opo": (by_length, episode_sum, 0, 0),
}
"""Recipe → advantage of a group's returns, average, weights of k3 and of the entropy. The first
update's: every ratio is 1. All others need measures, branches, a critic or a teacher, whose own
tests work them out by hand."""


def first_update(run: Trainer) -> tuple[Any, list[Tensor]]:
    """The batch of a step and the gradients of its first update."""
    seen: dict[str, Any] = {}
    update, optimizer = run.updater.update, run.updater.optimizers[0]
    step = optimizer.step

    def noted(batch: Any, *rest: Any) -> Any:
        seen["batch"] = batch
        return update(batch, *rest)

    def stepped(*args: Any, **options: Any) -> Any:
        own = run.lm.parameters()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in own]
        seen.setdefault("grads", grads)
        seen.setdefault("before", [p.detach().clone() for p in own])
        return step(*args, **options)

    run.updater.update, optimizer.step = noted, stepped  # type: ignore[method-assign]
    run.advance()
    with torch.no_grad():
        for p, before in zip(run.lm.parameters(), seen["before"], strict=True):
            p.copy_(before)
    return seen["batch"], seen["grads"]


def scored(model: Any, member: Any) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies (n,) of a member's trained tokens, row by row."""
    logp, entropy = [], []
    for row in member.rows:
        logits = model(input_ids=torch.tensor([row.ids.tolist()])).logits[0].double()
        every = logits.log_softmax(-1)
        for t in np.flatnonzero(row.loss_mask):
            logp.append(every[t - 1, int(row.ids[t])])
            entropy.append(-(every[t - 1].exp() * every[t - 1]).sum())
    return torch.stack(logp), torch.stack(entropy)


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_are_those_of_the_formula(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    advantage, average, k3, bonus = FORMULAS[name]
    run = test_as_shipped.trainer(name, minibatches=1, max_norm=1e9, tokens=10**6)
    frozen: Any = run.lm._frozen
    if frozen is not None:  # a reference that is another model
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in frozen.parameters():
                p.add_(0.02 * torch.randn(p.shape, generator=draw))
    batch, grads = first_update(run)
    kept = [m for m in batch.members if any(row.loss_mask.any() for row in m.rows)]
    assert len(kept) == len(batch.members)
    found = [scored(run.lm.model, m) for m in kept]
    tokens = torch.tensor([float(len(logp)) for logp, _ in found]).double()
    turns = {len(m.episode.turns) for m in kept}
    assert len(set(tokens.tolist())) > 1, "else averages cannot be told apart"
    assert len(turns) > 1
    reward = torch.tensor([sum(t.reward for t in m.episode.turns) for m in kept]).double()
    adv = torch.zeros(len(kept)).double()
    for number in batch.group.unique():
        place = batch.group == number
        if reward[place].max() - reward[place].min() > 1e-6:
            adv[place] = advantage(reward[place], tokens[place])
    assert adv.any()
    loss = average([-a * (lp - lp.detach()).exp() for a, (lp, _) in zip(adv, found, strict=True)])
    if k3:
        apart = []
        for member, (logp, _) in zip(kept, found, strict=True):
            with torch.no_grad():
                d = scored(frozen, member)[0]
            apart.append(((d - logp).exp() + logp - d - 1).clamp(max=10))
        loss = loss + k3 * average(apart)
    if bonus:
        loss = loss - bonus * token_mean([h for _, h in found])
    own = torch.autograd.grad(loss, run.lm.parameters(), allow_unused=True)
    mine = torch.cat([(torch.zeros_like(p) if g is None else g).flatten()
                      for p, g in zip(run.lm.parameters(), own, strict=True)])  # fmt: skip
    theirs = torch.cat([g.flatten() for g in grads])
    off = float((mine - theirs).norm() / mine.norm())
    with capsys.disabled():
        lengths = f"{int(tokens.min())} to {int(tokens.max())} tokens, turns {sorted(turns)}"
        print(f"\n{name:24s} gradient {off:.1e} off, {len(kept)} episodes, {lengths}", end="")
    assert off < 1e-4


class Killed(Exception):
    """Ends a training where a kill would."""


def stopped(run: Trainer, moment: str) -> None:
    """Train until the second step, and end at a moment of it."""

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    steps = run.train()
    next(steps)
    if moment == "playing":
        run._play = die  # type: ignore[method-assign]
    elif moment == "updating":
        run._publish = die  # type: ignore[method-assign]
    else:
        run.save_checkpoint = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        list(steps)


@pytest.mark.parametrize("name", shipped())
def test_every_recipe_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    """Stopped while it plays, after its weights have changed, and after the log's line."""
    whole = test_as_shipped.trainer(name, save_every=1)
    list(whole.train())
    for moment in ("playing", "updating", "logged"):
        out = tmp_path / moment
        stopped(test_as_shipped.trainer(name, save_every=1, out=out), moment)
        again = test_as_shipped.trainer(name, save_every=1, out=out)
        assert again.steps == 1
        list(again.train())
        assert torch.equal(weights(again), weights(whole)), moment


@pytest.mark.parametrize("name", FORMULAS)
def test_accumulated_gradients_are_the_whole_ones(name: str) -> None:
    """A few trajectories at a time, or all at once."""
    found = []
    for tokens in (10**6, 64):
        run = test_as_shipped.trainer(name, minibatches=1, max_norm=1e9, tokens=tokens)
        found.append(torch.cat([g.flatten() for g in first_update(run)[1]]))
    assert float((found[0] - found[1]).norm() / found[0].norm()) < 1e-4
