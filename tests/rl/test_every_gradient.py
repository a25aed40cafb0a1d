"""Gradients of the registry by other means: two updates of a batch of episodes of unequal lengths
and turns, with weights that have moved in between and since the batch was played. Prints what
agreed, and why the rest is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from searchgym.rl.recipe import Recipe
from searchgym.rl.recipe_files import shipped
from searchgym.rl.trainer import Trainer
from tests.rl import as_shipped
from tests.rl.formulas import FORMULAS
from tests.rl.formulas.step import Step

pytestmark = pytest.mark.slow
LEFT_OUT = {
    "intuitor": "a measure of whole distributions; test_unsupervised works it out",
    "rent": "likewise",
    "cosearch": "two roles, the ranker's rows among them",
    "cr_planner": "a critic chooses among turns of a tree; its leaves are credited as arpo's",
    "propa": "segments of a tree search, and demonstrations where it failed",
    "rest_mcts": "imitation of steps that a tree search selects",
    "search_r2_refiner": "two roles, the refiner's rows among them",
    "verl_rank": "its first step is grpo; later ones read a running mean of effective ranks",
}
START = {"kimi": 100, "chord": 100, "fathom_rapo": 6}
"""Steps at which schedules have risen from 0, or a group's rewards are equal."""
OPTIONS: dict[str, dict[str, Any]] = {
    "latr": {"rollout": {"use": "near_ties", "size": 8, "least": 0.02, "apart": 1.0}},
    "clip_cov": {"advantage": {"use": "clip_cov", "base": "grpo", "share": 1.0, "high": 5.0}},
    "spear": {
        "advantage": {
            "use": "self_imitation",
            "base": {"use": "clip_cov", "base": "dr_grpo", "share": 1.0, "high": 40.0},
        }
    },
}
"""Where the recipe's own would do nothing in this world (no second token is that likely), or what
it does is drawn at random (Clip-Cov: all that may be drawn, instead of a few)."""


class Watch:
    """A training's next step, shaken: after playing, before its second update, and its critic."""

    def __init__(self, run: Trainer) -> None:
        self.run, self.draw = run, torch.Generator().manual_seed(1)
        self.own = list(run.lm.parameters())
        self.played, self.old = self.copy(self.own), []  # type: ignore[var-annotated]
        self.updates: list[tuple[list[Tensor], Tensor]] = []
        self.groups: list[Any] = []
        for other in (run.lm._frozen, run.teacher and run.teacher.model):
            if other is not None:
                self.shake(list(other.parameters()))
        score, play = run._score, run._play
        prepare, backward = run.updater._prepare, run.updater._backward

        def scored(batch: Any) -> None:
            self.batch = batch
            self.shake(self.own)
            self.old = self.copy(self.own)
            score(batch)

        def noted(workers: Any) -> Any:
            found = play(workers)
            self.groups += found
            return found

        def prepared(*args: Any) -> None:
            if self.updates:
                self.shake(self.own)
            prepare(*args)

        def backed(*args: Any) -> Any:
            found = backward(*args)
            self.updates.append((self.copy(self.own), gradients(self.own)))
            return found

        self.critic: list[tuple[list[Tensor], Tensor]] = []
        if run.critic is not None:
            self.head = run.critic.parameters()
            self.shake(self.head, 0.1)
            self.valued = self.copy(self.head)
            run.critic.epochs, run.critic.minibatches, run.critic.max_norm = 2, 1, 1e9

            def fitted(*_: Any) -> None:
                self.critic.append((self.copy(self.head), gradients(self.head)))
                self.shake(self.head, 0.1)

            run.critic.optimizer.step = fitted
        run._score, run._play = scored, noted  # type: ignore[method-assign]
        run.updater._prepare, run.updater._backward = prepared, backed  # type: ignore[method-assign]
        run.advance()

    @staticmethod
    def copy(weights: list[Tensor]) -> list[Tensor]:
        return [p.detach().clone() for p in weights]

    def shake(self, weights: list[Tensor], scale: float = 0.03) -> None:
        with torch.no_grad():
            for p in weights:
                p.add_(scale * torch.randn(p.shape, generator=self.draw))

    @staticmethod
    def load(own: list[Tensor], weights: list[Tensor]) -> None:
        with torch.no_grad():
            for p, value in zip(own, weights, strict=True):
                p.copy_(value)


def gradients(weights: list[Tensor]) -> Tensor:
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten()
                      for p in weights])  # fmt: skip


def forward(model: Any, members: Any, among: Any = ()) -> list[list[Tensor]]:
    """Of each member's trained tokens, row by row: log-probabilities, entropies and Σ π² (n,), last
    hidden states (n, H), and gradients by the logits of ``among``."""
    found: list[list[Tensor]] = [[], [], [], [], []]
    for member in members:
        parts: list[list[Tensor]] = [[], [], [], [], []]
        for row in member.rows:
            at = np.flatnonzero(row.loss_mask)
            ids = torch.tensor(row.ids[at])
            said = model(input_ids=torch.tensor([row.ids.tolist()]), output_hidden_states=True)
            every = said.logits[0].double().log_softmax(-1)[at - 1]
            parts[0].append(every[torch.arange(len(at)), ids])
            parts[1].append(-(every.exp() * every).sum(-1))
            parts[2].append((2 * every).exp().sum(-1))
            parts[3].append(said.hidden_states[-1][0].double()[at - 1])
            own = (ids[:, None] == torch.tensor(among)).double() if len(among) else every[:, :0]
            parts[4].append(own - every[:, list(among)].exp())
        for into, part in zip(found, parts, strict=True):
            into.append(torch.cat(part))
    return found


def step_of(watch: Watch) -> Step:
    run, batch = watch.run, watch.batch
    members = batch.members
    with torch.no_grad():
        watch.load(watch.own, watch.played)
        sampled = forward(run.lm.model, members)[0]
        watch.load(watch.own, watch.old)
        ids = {int(i) for m in members for row in m.rows for i in row.ids[row.sampled]}
        old, _, squares, hidden, slopes = forward(run.lm.model, members, sorted(ids))
    step = Step(members, batch.group.tolist(), batch.reward.double(), dict(batch.signals),
                {n: watch.groups[n].group.members for n in range(len(watch.groups))},
                sampled, old, squares=squares, hidden=hidden, slopes=slopes)  # fmt: skip
    with torch.no_grad():
        if run.lm._frozen is not None:
            step.ref = forward(run.lm._frozen, members)[0]
        if run.teacher is not None:
            step.teacher = forward(run.teacher.model, members)[0]
        if run.critic is not None:
            watch.load(watch.head, watch.valued)
            step.value = [meant(v, run.critic) for v in judged(run.critic, members)]
    return step


def judged(critic: Any, members: Any) -> list[Tensor]:
    """The critic's numbers (n, D) of the states before each member's trained tokens."""
    found = []
    for member in members:
        parts = []
        for row in member.rows:
            at = np.flatnonzero(row.loss_mask)
            hidden = critic.body(input_ids=torch.tensor([row.ids.tolist()])).last_hidden_state[0]
            parts.append(critic.head(hidden)[at - 1].double())
        found.append(torch.cat(parts))
    return found


def meant(numbers: Tensor, critic: Any) -> Tensor:
    if numbers.shape[1] == 1:
        return numbers[:, 0]
    return numbers.softmax(-1) @ (BINS[1:] + BINS[:-1]) / 2


BINS = torch.linspace(-0.5, 1.5, 52).double()


def critic_loss(step: Step, numbers: list[Tensor]) -> Tensor:
    """Clipped squares, or the cross-entropy to smoothed bins, where the critic is asked."""
    terms = []
    for said, old, goal in zip(numbers, step.value, step.targets, strict=True):
        asked = ~goal.isnan()
        said, old, goal = said[asked], old[asked], goal[asked]
        if said.shape[1] > 1:
            goal = goal.clamp(-0.5, 1.5)
            below = torch.erf((BINS - goal[:, None]) / (2**0.5 * 0.75 * 2 / 51))
            share = below.diff(dim=1) / (below[:, -1:] - below[:, :1])
            terms.append(-(share * said.log_softmax(-1)).sum(-1))
        else:
            value = said[:, 0]
            near = torch.minimum(torch.maximum(value, old - 0.5), old + 0.5)
            terms.append(torch.maximum((value - goal) ** 2, (near - goal) ** 2) / 2)
    return torch.cat(terms).mean()


def distance(loss: Tensor, weights: list[Tensor], theirs: Tensor) -> float:
    """Relative distance of a loss's gradient from another."""
    own = torch.autograd.grad(loss, weights, allow_unused=True)
    mine = torch.cat([(torch.zeros_like(p) if g is None else g).flatten()
                      for p, g in zip(weights, own, strict=True)])  # fmt: skip
    return float((mine - theirs).norm() / mine.norm())


def watched(name: str, tokens: int = 10**6) -> Watch:
    table = {**Recipe.of(name).table, **OPTIONS.get(name, {})}
    run = as_shipped.trainer(table, minibatches=1, epochs=2, max_norm=1e9, tokens=tokens)
    run.steps = START.get(name, 0)
    return Watch(run)


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_are_those_of_the_formula(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    watch = watched(name)
    run = watch.run
    step, off = step_of(watch), []
    for weights, theirs in watch.updates:
        watch.load(watch.own, weights)
        step.now, step.entropy, *_ = forward(run.lm.model, step.members)
        off.append(distance(FORMULAS[name](step), watch.own, theirs))
    for weights, theirs in watch.critic:
        watch.load(watch.head, weights)
        off.append(
            distance(critic_loss(step, judged(run.critic, step.members)), watch.head, theirs)
        )
    moved = torch.cat(step.now) - torch.cat(step.old)
    lengths = [len(x) for x in step.old]
    with capsys.disabled():
        print(f"\n{name:22s} {' '.join(f'{x:.0e}' for x in off)} off, {len(step)} episodes", end="")
        print(f" of {min(lengths)} to {max(lengths)} tokens, of which", end="")
        print(f" {(moved.abs() > 0.2).double().mean():.0%} moved by .2", end="")
    assert len(off) == (2 if run.critic is None else 4)
    assert max(off) < 1e-4


@pytest.mark.parametrize("name", FORMULAS)
def test_accumulated_gradients_are_the_whole_ones(name: str) -> None:
    """A few trajectories at a time, or all at once."""
    pairs = zip(watched(name).updates, watched(name, tokens=64).updates, strict=True)
    for (_, whole), (_, parts) in pairs:
        assert float((whole - parts).norm() / whole.norm()) < 1e-4


def test_all_recipes_are_here_or_left_out_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted([*FORMULAS, *LEFT_OUT]) == sorted(shipped())
    with capsys.disabled():
        print("".join(f"\n{name:24s} left out: {why}" for name, why in LEFT_OUT.items()), end="")
