"""Optional abilities of slots: data that replays groups, signals that learn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError
from searchgym.policies import TrainingRow
from searchgym.rl.advantages.group_relative import RLOO
from searchgym.rl.advantages.ppo import KLInReward
from searchgym.rl.data import UniformTasks
from searchgym.rl.recipe import Recipe, read
from searchgym.rl.signals import Return
from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.protocols import Learner, Replay
from searchgym.rl.slots.records import Group, Played, Rewards, Scored, pack, unpack
from searchgym.rl.slots.samples import group_of
from tests.rl.trainers import trainer


class Again(UniformTasks):
    """The best group so far, once more."""

    def __init__(self) -> None:
        super().__init__()
        self.best: Scored | None = None

    def observe(self, scored: Scored) -> None:
        if self.best is None or scored.rewards.total.mean() > self.best.rewards.total.mean():
            self.best = scored

    def replay(self, count: int, step: int, seed: int) -> Sequence[Scored]:
        return [] if step == 0 or self.best is None else [self.best]


class Expected(Return):
    """A return, and a running mean of it, which is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.seen = torch.zeros(1), 0

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        self.seen += len(scored)
        self.mean += 0.3 * (float(np.mean([s.rewards.total.mean() for s in scored])) - self.mean)
        return {"expected": float(self.mean)}

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seen = int(state["seen"])

    def tensors(self) -> Mapping[str, torch.Tensor]:
        return {"mean": self.mean}

    def load_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.mean = tensors["mean"].clone()


def test_stored_groups_are_trained_on_beside_new_ones() -> None:
    data, signal = Again(), Expected()
    assert isinstance(data, Replay)
    assert isinstance(signal, Learner)
    assert not isinstance(UniformTasks(), Replay)
    assert not isinstance(Return(), Learner)
    run = trainer({**read("grpo"), "data": data, "signal": signal}, steps=2, tasks=3)
    (signal,) = run.recipe.signal  # type: ignore[assignment]
    first, second = run.train()
    assert (first["groups_replayed"], second["groups_replayed"]) == (0, 1)
    assert (first["groups_kept"], second["groups_kept"]) == (3, 3)
    assert signal.seen == 3 + 4  # those that were trained on
    assert second["expected"] == pytest.approx(float(signal.mean))


def test_what_a_signal_has_learnt_is_resumed(tmp_path: Path) -> None:
    """Tensors lie in the checkpoint beside the model's, and under the estimator over another."""

    def run(steps: int, out: Path) -> list[float]:
        recipe = {**read("grpo"), "signal": Expected()}
        made = trainer(recipe, steps=steps, tasks=2, save_every=1, out=out)
        return [m["expected"] for m in made.train()]

    whole = run(4, tmp_path / "whole")
    assert run(2, tmp_path / "cut") + run(4, tmp_path / "cut") == whole
    base = RLOOWithTensor()
    over = KLInReward(base=base)
    over.load_tensors({"n": torch.ones(2)})
    assert over.tensors()["n"].sum() == base.n.sum() == 2


class RLOOWithTensor(RLOO):
    n = torch.zeros(2)

    def tensors(self) -> Mapping[str, torch.Tensor]:
        return {"n": self.n}

    def load_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.n = tensors["n"]


def test_a_batch_says_who_wrote_what_and_when() -> None:
    """Experts' members are trained on, baselines are not; replayed groups are the last ones."""
    group = group_of(3)
    first = replace(group.members[0], purpose="expert")
    twin = replace(group.members[2], purpose="baseline")
    one = Scored(
        Group(group.plan, (first, group.members[1], twin)), {}, Rewards(np.array([1.0, 0.0, 1.0]))
    )
    rows = [replace(m, rows=(row_of(m),)) for m in one.group.members]
    one = replace(one, group=Group(group.plan, tuple(rows)))
    batch = Batch.of([one, one], replayed=1)
    assert batch is not None
    assert batch.expert.tolist() == [True, False, True, False]
    assert batch.replayed.tolist() == [False, False, True, True]


def row_of(member: Played) -> TrainingRow:
    """Two tokens, the second one sampled."""
    name, sampled = member.episode.config.episode_id, np.array([False, True])
    zeros = np.zeros(2, np.float32)
    return TrainingRow(
        name, (f"{name}/0",), 0, "g", np.array([1, 2]), sampled, sampled, zeros,
        np.array([-1, 0]), np.array([-1, 0]),
    )  # fmt: skip


def test_what_is_said_of_a_member_survives_the_way_to_another_process() -> None:
    group = group_of(2)
    branch = replace(group.members[1], purpose="expert", parent=0, siblings=3)
    group = Group(group.plan, (group.members[0], branch))
    back = unpack(group.plan, pack(group))
    said = [(m.purpose, m.parent, m.siblings) for m in back.members]
    assert said == [("train", None, 0), ("expert", 0, 3)]


def test_branches_know_their_parents_when_members_are_dropped() -> None:
    """Of a tree 0 ← 1 ← 2, 1 ← 3, its root is dropped by the data policy, and so is, from another
    group, the member between two that stay."""
    group = group_of(4)
    above, families = (None, 0, 1, 1), (0, 1, 2, 2)
    members = tuple(
        replace(m, rows=(row_of(m),), parent=p, siblings=s)
        for m, p, s in zip(group.members, above, families, strict=True)
    )
    played = Scored(Group(group.plan, members), {}, Rewards(np.arange(4.0)))
    kept = [played.only([1, 2, 3]), played.only([0, 2, 3]).only([1, 2]), played]
    batch = Batch.of(kept)
    assert batch is not None
    number, parent = batch.number, batch.parent
    assert number is not None
    assert parent is not None
    assert batch.siblings is not None
    assert len(set(number.tolist())) == len(batch) == 9
    own = dict(zip(number.tolist(), range(9), strict=True))
    assert [own.get(p) for p in parent.tolist()] == [None, 0, 0, None, None, None, 5, 6, 6]
    assert parent[3] == parent[4] >= 0  # the same one, which is not there
    assert parent[5] == -1
    assert batch.siblings.tolist() == [0, 1, 1, 2, 2, 3, 4, 5, 5]
    part = batch.take([8, 6, 2])
    assert part.number is not None
    assert part.number.tolist() == [int(number[i]) for i in (8, 6, 2)]


@pytest.mark.parametrize("use", ["constant", "scheduled"])
def test_a_coefficient_that_nobody_reads_is_refused(use: str) -> None:
    spec: dict[str, Any] = {"advantage": "grpo", "loss": "ppo"}
    for name in ("policy", "lr", "w_searches"):
        Recipe.of({**spec, "schedule": {"use": use, name: 0.5}}).check(frozenset())
    wrong = Recipe.of({**spec, "schedule": {"use": use, "ppo": 0.5}})
    with pytest.raises(CardError, match=r"'ppo'.*policy"):
        wrong.check(frozenset())


def test_an_adaptive_coefficient_needs_what_it_adapts_to() -> None:
    recipe = {"advantage": "grpo", "loss": "ppo", "schedule": {"use": "adaptive_kl", "name": "lr"}}
    with pytest.raises(CardError, match=r"schedule .*needs 'ref_logp'"):
        Recipe.of(recipe).check(frozenset())


def test_an_adaptive_coefficient_moves() -> None:
    """By Ziegler's rule, at every step, from the KL that the step before has logged."""
    recipe = {**read("ppo_kl"), "schedule": {**read("ppo_kl")["schedule"], "horizon": 100}}
    run = trainer(recipe, 1, steps=4, critic=True, lm={"reference": True}, lr=1e-2)
    beta = 0.001
    for row in run.train():
        assert row["coef/beta"] == pytest.approx(beta)
        beta *= 1 + min(max(row["kl"] / 0.1 - 1, -0.2), 0.2) * row["trajectories"] / 100
    assert beta != pytest.approx(0.001, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schedule": {"use": "adaptive_kl", "name": "lr", "measured": "kl_ref"}}, "'kl_ref'"),
        ({"schedule": {"use": "adaptive_kl", "name": "lr", "measured": "approx_kl"}}, "'approx_"),
        ({"schedule": {"use": "by_entropies", "name": "lr"}}, "'sft/entropy'"),
        ({"loss": ["ppo", "sft"], "schedule": "by_entropies"}, "'sft/entropy'"),
        ({"schedule": {"use": "slope_weights", "names": ["f1", "f2"]}}, "'rewards/f2'"),
    ],
)
def test_a_metric_that_is_not_logged_is_named_before_training(changes: Any, says: str) -> None:
    with pytest.raises(CardError, match=r"schedule \(\w+\) reads the metric .*" + says):
        trainer({"advantage": "grpo", "loss": "reinforce", **changes}, 1)
