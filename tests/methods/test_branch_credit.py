"""Worked numbers of methods whose trajectories branch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.core import Episode
from searchgym.errors import CardError
from searchgym.rl import Batch, Output, Played, dr_grpo_advantages, make, segments, values
from searchgym.seeding import stream
from searchgym_agents.methods.step_apo import step_pairs
from tests.methods.trees import forest
from tests.rl.kernels import opmd_loss


def estimate(spec: Any, batch: Batch) -> np.ndarray[Any, Any]:
    adv = make("advantage", spec).estimate(batch, {}).adv
    wide = adv[:, None].expand(batch.mask.shape) if adv.ndim == 1 else adv
    return torch.where(batch.mask, wide, torch.zeros(())).numpy()


ONE_STATE = forest([1, 0, 0], [-1, 0, 0], [0, 1, 1], [2, 2, 2])
"""A chain and two branches after its first turn."""
DEEP = forest(
    [1, 0, 1, 0, 0.5], [-1, 0, 0, 2, -1], [0, 1, 2, 3, 0], [4, 3, 4, 4, 2]
)  # fmt: skip
"""A chain of four turns; one branch after its first turn, one after its second, which has one after
its third; and a chain alone."""


# --- segments -----------------------------------------------------------------------------------
def test_segments_of_a_tree() -> None:
    found = segments(DEEP.group, DEEP.number, DEEP.parent, DEEP.since)
    assert [(s.line, s.first, s.state, s.after, s.leaves) for s in found] == [
        (0, 0, (-1, 0), (0, 1), (0, 1, 2, 3)),
        (0, 1, (0, 1), (0, 2), (0, 2, 3)),
        (0, 2, (0, 2), None, (0,)),
        (1, 1, (0, 1), None, (1,)),
        (2, 2, (0, 2), (2, 3), (2, 3)),
        (2, 3, (2, 3), None, (2,)),
        (3, 3, (2, 3), None, (3,)),
        (4, 0, (-1, 0), None, (4,)),
    ]
    worth = values(found, DEEP.reward.tolist())
    # below: (2, 3): 1/2; (0, 2): (1 + 1/2) / 2; (0, 1): (3/4 + 0) / 2;
    # the question: (3/8 + 1/2) / 2
    assert [v.before for v in worth] == [
        0.4375, 0.375, 0.75, 0.375, 0.75, 0.5, 0.5, 0.4375,
    ]  # fmt: skip
    assert [v.end for v in worth] == [0.375, 0.75, 1, 0, 0.5, 1, 0, 0.5]


def test_a_fork_at_its_parents_own_beginning_is_a_sibling() -> None:
    batch = forest([1, 0, 0, 0], [-1, 0, 1, 0], [0, 1, 1, 0], [2, 2, 2, 2])
    found = segments(batch.group, batch.number, batch.parent, batch.since)
    assert [s.state for s in found] == [(-1, 0), (0, 1), (0, 1), (0, 1), (-1, 0)]
    assert found[0].leaves == (0, 1, 2)


def test_children_of_a_dropped_parent_are_siblings() -> None:
    kept = DEEP.take([1, 3, 4])
    found = segments(kept.group, kept.number, kept.parent, kept.since)
    assert [s.state for s in found] == [(0, 1), (2, 3), (-1, 0)]
    both = ONE_STATE.take([2, 1])
    found = segments(both.group, both.number, both.parent, both.since)
    assert {s.state for s in found} == {(0, 1)}
    assert [v.before for v in values(found, [1.0, 0.0])] == [0.5, 0.5]


# --- V-STAR -------------------------------------------------------------------------------------
def test_siblings_are_compared_where_they_part() -> None:
    """A turn after which both a right and a wrong leaf followed is worth a half, and alone."""
    only = {"use": "siblings", "eps": 0.0}
    more = estimate(only, ONE_STATE) - estimate("branches", ONE_STATE)
    np.testing.assert_allclose(more[0], [0, math.sqrt(2)], atol=1e-6)
    np.testing.assert_allclose(more[1:, 0], [-math.sqrt(0.5)] * 2, atol=1e-6)
    pair = forest([1, 0], [-1, 0], [0, 1], [3, 3])
    more = estimate(only, pair) - estimate("branches", pair)
    np.testing.assert_allclose(more, [[0, 1, 0], [-1, 0, 0]], atol=1e-6)
    # DEEP: R̄ of the first chain's three stretches is (1 + 0 + 1 + 0) / 4, (1 + 1 + 0) / 3, 1
    more = estimate(only, DEEP) - estimate("branches", DEEP)
    assert not more[0, 0], "as good as the chain alone"
    np.testing.assert_allclose(more[0, 1:], [1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(more[1, 0], -1, atol=1e-6)
    np.testing.assert_allclose([*more[2, :2], more[3, 0]], [-1, 1, -1], atol=1e-6)


def test_siblings_without_branches_are_grpos() -> None:
    flat = forest([1, 0, 0, 0.5], [-1] * 4, [0] * 4, [1] * 4)
    more = estimate("siblings", flat) - estimate("branches", flat)
    want = estimate({"use": "grpo", "std": "population", "eps": 1e-4}, flat)
    np.testing.assert_allclose(more, want, atol=1e-6)
    half = estimate({"use": "siblings", "weight": 0.5}, flat) - estimate("branches", flat)
    np.testing.assert_allclose(half, want / 2, atol=1e-6)


# --- SPO ----------------------------------------------------------------------------------------
def test_spo() -> None:
    spec = {"use": "segment_values", "certain": None}
    adv = estimate(spec, ONE_STATE)
    np.testing.assert_allclose(adv[0], [0, 2 / 3], atol=1e-6)
    np.testing.assert_allclose(adv[1:, 0], [-1 / 3, -1 / 3], atol=1e-6)
    deep = estimate(spec, DEEP)
    np.testing.assert_allclose(deep[0], [-0.0625, 0.375, 0.25, 0.25], atol=1e-6)
    # along each path the gains of its segments are R - V(question)
    for gains, reward in ((-0.0625 + 0.375 + 0.25, 1), (-0.0625 - 0.375, 0),
                          (-0.0625 + 0.375 - 0.25 + 0.5, 1), (0.0625, 0.5)):  # fmt: skip
        assert gains == pytest.approx(reward - 0.4375)
    np.testing.assert_allclose(deep[2][:2], [-0.25, 0.5], atol=1e-6)
    by_std = estimate({**spec, "norm": "grpo", "std": "population", "eps": 1e-8}, ONE_STATE)
    np.testing.assert_allclose(by_std[0], [0, math.sqrt(2)], atol=1e-6)


def test_propa_counts_each_leaf_once() -> None:
    """Q = W / N among the turns of one state: two of four leaves below the first turn, one of two
    below the second."""
    found = segments(DEEP.group, DEEP.number, DEEP.parent, DEEP.since)
    worth = values(found, DEEP.reward.tolist(), "leaves")
    assert [v.end for v in worth] == [0.5, 2 / 3, 1, 0, 0.5, 1, 0, 0.5]
    assert [v.before for v in worth] == [0.5, 1 / 3, 0.75, 1 / 3, 0.75, 0.5, 0.5, 0.5]
    spec = {"use": "segment_values", "certain": None, "norm": "grpo", "average": "leaves"}
    adv = estimate({**spec, "std": "population", "eps": 1e-9}, DEEP)
    np.testing.assert_allclose(adv[0], [0, 1, 1, 1], atol=1e-6)
    np.testing.assert_allclose(adv[2][:2], [-1, 1], atol=1e-6)
    np.testing.assert_allclose(adv[1][:2], [-1, -1], atol=1e-6)
    with pytest.raises((ValueError, CardError), match="'states' or 'leaves'"):
        make("advantage", {"use": "segment_values", "average": "turns"})


def test_spo_trains_on_unsure_tokens_alone() -> None:
    logp = torch.tensor([[0.95, 0.5], [0.89, 1.0], [0.91, 1.0]]).log()
    made = make("advantage", "segment_values").estimate(replace(ONE_STATE, old_logp=logp), {})
    assert made.mask.tolist() == [[False, True], [True, False], [False, False]]


# --- Tree-GRPO, ARPO ------------------------------------------------------------------------------
def test_tree_grpo_compares_in_the_group_and_in_the_tree() -> None:
    batch = forest([1, 0, 0, 0], [-1, 0, -1, 2], [0, 1, 0, 1], [2, 2, 2, 2])
    inter = np.array([1.5, -0.5, -0.5, -0.5])
    intra = np.array([1, -1, 0, 0]) / math.sqrt(2)
    leaf = inter + intra
    adv = estimate({"use": "branches", "intra": 1.0}, batch)
    want = [[leaf[0] + leaf[1], leaf[0]], [leaf[1], 0], [leaf[2] + leaf[3], leaf[2]], [leaf[3], 0]]
    np.testing.assert_allclose(adv, want, atol=1e-5)
    equal = replace(batch, reward=torch.ones(4))
    assert not estimate({"use": "branches", "intra": 1.0}, equal).any()


def test_dialtree_compares_what_was_played_to_its_end() -> None:
    """A pruned branch is in no mean; where the writer itself was pruned, what it shares stays."""
    spec = {"use": "branches", "whole": True}
    half = 1 / math.sqrt(2)
    for gone, want, kept in (
        (2, [[0, half], [-half, 0], [0, 0]], [[1, 1], [1, 0], [0, 0]]),
        (0, [[0, 0], [half, 0], [-half, 0]], [[1, 0], [1, 0], [1, 0]]),
    ):
        reward = [1.0, 0.0, 0.0] if gone == 2 else [0.9, 1.0, 0.0]
        batch = forest(reward, [-1, 0, 0], [0, 1, 1], [2, 2, 2])
        config = batch.members[gone].episode.config
        batch.members[gone] = Played(Episode(config), ())
        made = make("advantage", spec).estimate(batch, {})
        np.testing.assert_allclose(made.adv, want, atol=1e-5)
        assert made.mask.int().tolist() == kept
    plain = estimate("branches", ONE_STATE)
    np.testing.assert_array_equal(estimate(spec, ONE_STATE), plain)


def test_arpos_soft_assignment_is_as_many_copies_of_the_hard_one() -> None:
    soft, hard = (
        estimate({"use": "branches", "share": share}, DEEP) for share in ("copies", "mean")
    )
    copies = np.array([[4, 3, 1, 1], [1, 1, 0, 0], [2, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_allclose(soft, copies * hard, atol=1e-5)
    best = estimate({"use": "branches", "share": "best"}, DEEP)
    alone = estimate("grpo", DEEP)
    np.testing.assert_allclose(best[0], alone[[0, 0, 0, 0], 0], atol=1e-6)


def test_the_gradient_is_that_of_whole_copies() -> None:
    """REINFORCE's slopes at ratio 1: leaves as whole trajectories, and each token once."""
    leaf = make("advantage", "grpo").estimate(DEEP, {}).adv
    slope: dict[tuple[int, int], float] = {}
    for line, way in enumerate(
        ([(0, 0), (0, 1), (0, 2), (0, 3)], [(0, 0), (1, 1), (1, 2)],
         [(0, 0), (0, 1), (2, 2), (2, 3)], [(0, 0), (0, 1), (2, 2), (3, 3)], [(4, 0), (4, 1)])
    ):  # fmt: skip
        for at in way:
            slope[at] = slope.get(at, 0.0) + float(leaf[line])
    adv = estimate("branches", DEEP)
    found = {(i, int(DEEP.turn[i, t])): float(adv[i, t]) for i, t in DEEP.mask.nonzero().tolist()}
    assert found == pytest.approx(slope, abs=1e-6)


def test_what_cannot_be_shared_says_so() -> None:
    with pytest.raises(ValueError, match="one number for each episode"):
        estimate({"use": "branches", "base": "reinforce_pp"}, DEEP)
    with pytest.raises((ValueError, CardError), match="share is one of"):
        make("advantage", {"use": "branches", "share": "all"})


# --- R³L ------------------------------------------------------------------------------------------
def test_r3l() -> None:
    batch = forest([1, 0.5, 0, 0.5], [-1, -1, 0, 1], [0, 0, 1, 0], [3, 2, 3, 2])
    made = make("advantage", "pivotal").estimate(batch, {})
    assert made.adv.tolist() == [1, 0, -0.5, 0]
    raised = make("advantage", "pivotal").estimate(
        replace(batch, reward=torch.tensor([0.9, 0.5, 0.1, 0.5])), {}
    )
    np.testing.assert_allclose(raised.adv, [1.2, 0, -0.4, 0], atol=1e-6)
    # the first chain's first turn is what both tries have in common; the second was cut at once
    assert made.mask.tolist() == [
        [False, True, True], [True, True, False], [True, True, False], [True, True, False],
    ]  # fmt: skip
    logp = torch.zeros(made.mask.shape, requires_grad=True)
    loss, _ = opmd_loss(logp, made.adv, made.mask, tau=1.0)
    loss.backward()
    assert logp.grad is not None
    assert logp.grad[0, 0] == 0
    assert float(logp.grad[0, 1]) == pytest.approx(-1 / 2 / int(made.mask.sum()))


# --- Step-APO -------------------------------------------------------------------------------------
def step_apo(batch: Batch, logp: torch.Tensor, **options: Any) -> Any:
    loss = make("loss", {"use": "step_apo", **options})
    noted = replace(batch, notes=dict(loss.prepare(batch, None, {})))
    return loss(Output(logp), noted, noted.totals, {})


def test_step_apo() -> None:
    pairs = step_pairs(ONE_STATE)
    assert [(a, b) for a, b, _ in pairs] == [((0, 1), (1, 1)), ((0, 1), (2, 1))]
    assert [d for _, _, d in pairs] == [1, 1]
    same = torch.zeros(ONE_STATE.mask.shape)  # as the reference
    assert float(step_apo(ONE_STATE, same, margin=0.0)[0]) == pytest.approx(math.log(2))
    assert float(step_apo(ONE_STATE, same)[0]) == pytest.approx(math.log(1 + math.e))
    ahead = same.clone().requires_grad_()
    loss, stats = step_apo(ONE_STATE, ahead + torch.tensor([[5.0, 2.0], [-1, 0], [-1, 0]]))
    assert float(loss.detach()) == pytest.approx(math.log(1 + math.exp(-(0.1 * 3 - 1))))
    assert stats["accuracy"] == (2, 2)
    loss.backward()
    assert ahead.grad is not None
    assert ahead.grad[0, 0] == 0, "the shared turn is no step of a pair"
    # DEEP: both turns from the question have leaves of one half in the mean
    apart = {(a, b): d for a, b, d in step_pairs(DEEP)}
    want = {((0, 1), (1, 1)): 2 / 3, ((0, 2), (2, 2)): 0.5, ((2, 3), (3, 3)): 1}
    assert apart == pytest.approx(want)
    equal = replace(ONE_STATE, reward=torch.ones(3))
    assert step_pairs(equal) == []
    assert float(step_apo(equal, same)[0]) == 0


# --- SLATE ----------------------------------------------------------------------------------------
SLATE = {"use": "turn_mix", "trajectory": 0.0, "turn": 1.0, "gamma": 0.0}


def test_slate_compares_candidates_of_one_turn() -> None:
    scores = torch.tensor([[1.0, 0], [0, 1], [0, 0], [1, 0], [0, 0]])
    # the second candidate of the first turn goes on: it and the last two are the second turn's
    batch = forest([0.0] * 5, [-1, 0, 0, 1, 1], [0, 0, 0, 1, 1], [1, 2, 1, 2, 2],
                   turn_reward=scores)  # fmt: skip
    batch = replace(batch, reward=(scores * batch.mask).sum(1), outcome=torch.zeros(5))
    adv = estimate(SLATE, batch)
    first, second = np.array([1, 0, 0]), np.array([1, 1, 0])
    want = [(s - s.mean()) / (s.std(ddof=1) + 1e-6) for s in (first, second)]
    np.testing.assert_allclose(adv[[0, 1, 2], 0], want[0], atol=1e-5)
    np.testing.assert_allclose([adv[1, 1], adv[3, 0], adv[4, 0]], want[1], atol=1e-5)
    same = replace(batch, turn_reward=torch.ones(5, 2), reward=batch.mask.sum(1).float())
    assert not estimate(SLATE, same).any()


@pytest.mark.parametrize("turns", [2, 3, 4])
def test_slates_variance_is_a_fraction_of_full_chains(turns: int) -> None:
    """At most 1.2 / T of it, for the gradient of one turn's choice, where T turns earn independent
    rewards and both have groups of five: the claim of the paper, in its own setting."""
    draw = stream(0, "slate", turns)
    count, size, odds = 20_000, 5, 0.5
    choice = draw.random((count, size)) < odds
    score = choice - odds  # derivative of log π by the logit
    earned = choice * 0.3 + draw.normal(size=(count, size))
    later = draw.normal(size=(count, size, turns - 1)).sum(2)
    group = torch.arange(count).repeat_interleave(size)

    def variance(reward: np.ndarray[Any, Any]) -> float:
        adv = dr_grpo_advantages(torch.from_numpy(reward.ravel()), group).numpy()
        gradient = (adv.reshape(count, size) * score).mean(1)
        assert gradient.mean() == pytest.approx(0.3 * 0.25 * (size - 1) / size, abs=0.02)
        return float(gradient.var())

    assert variance(earned) <= 1.2 / turns * variance(earned + later)


# --- KEPO -----------------------------------------------------------------------------------------
def test_kepos_teacher_is_silent_without_a_success() -> None:
    spec = {"use": "distillation", "base": "grpo", "gate": "succeeded"}
    teacher = torch.full(DEEP.mask.shape, -3.0)
    failed = replace(DEEP, reward=torch.tensor([0.0, 0.2, 0.4, 0, 0]), teacher_logp=teacher)
    np.testing.assert_array_equal(estimate(spec, failed), estimate("grpo", failed))
    some = replace(failed, reward=torch.tensor([0.0, 1, 0, 0, 0]))
    apart = estimate(spec, some) - estimate("grpo", some)
    np.testing.assert_allclose(apart[1][:2], [-2, -2], atol=1e-6)
    assert not apart[[0, 2, 3, 4]].any()
