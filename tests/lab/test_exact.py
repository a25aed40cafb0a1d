"""The laboratory's truth is true, and what is known of estimators comes out of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from searchgym_agents.lab.gradients import Bench
from searchgym_agents.lab.methods import table_of
from searchgym_agents.lab.policy import TabularLM, expected_return, odds, skilled, true_gradient
from searchgym_agents.lab.quality import exact_moments, figures, moments, step_cosines
from searchgym_agents.lab.tree import MOST, TreeShape, counts, grow

PLAIN = {"loss": "reinforce"}


@cache
def whole() -> TabularLM:
    return skilled(grow(), 0.4)


@cache
def small() -> TabularLM:
    """Six trajectories: 126 groups of four."""
    return skilled(grow((TreeShape(1, 2, 2, 2),)), 0.4)


@cache
def arms() -> TabularLM:
    """One decision between a right and a wrong answer, of odds .3 and .7."""
    lm = TabularLM(grow((TreeShape(1, 0, 2, 1),)))
    chance = torch.ones(len(lm.logits), dtype=torch.float64)
    (decision,) = lm.tree.decisions
    for candidate, value in zip(decision.candidates, (0.3, 0.7), strict=True):
        place = lm.place[(*decision.prompt, *candidate.ids[:1])]
        at = int(lm.start[place]) + lm.words[place].index(candidate.ids[1])
        chance[at] = value
    lm.logits = chance.log()
    return lm


def test_the_tree_is_small_and_whole():
    tree = whole().tree
    assert [len(leaves) for leaves in tree.leaves] == [12, 21, 30]
    assert all(2 <= len(d.candidates) <= MOST for d in tree.decisions)
    assert [float(p.sum()) for p in odds(whole())] == pytest.approx([1, 1, 1])
    kinds = {c.kind for d in tree.decisions for c in d.candidates}
    assert kinds == {"due", "lucky", "wrong", "other"}
    shown = [len(t.results[0].hits) for q in tree.leaves for m in q for t in m.episode.turns[:-1]]
    assert {0, 1} == set(shown)  # there are dead ends
    em = counts(tree)["em"]
    assert np.mean([p @ e for p, e in zip(odds(whole()), em, strict=True)]) == pytest.approx(0.4)


def test_two_trees_of_a_seed_are_the_same():
    a, b = grow(), grow()
    assert [c.text for d in a.decisions for c in d.candidates] == [
        c.text for d in b.decisions for c in d.candidates
    ]
    assert not np.array_equal(true_gradient(skilled(a, 0.4)), true_gradient(skilled(a, 0.8)))
    assert np.array_equal(true_gradient(skilled(a, 0.4)), true_gradient(skilled(b, 0.4)))


def test_the_true_gradient_is_that_of_the_expected_return():
    """Central differences at the steepest and at some other logits; and all sum to 0 by place."""
    lm = whole()
    truth = true_gradient(lm)
    some = [*np.argsort(-np.abs(truth))[:6], *range(0, len(truth), len(truth) // 5)]
    for i in some:
        step = torch.zeros_like(lm.logits)
        step[i] = 1e-5
        up, down = (float(expected_return(lm, lm.logits + s)) for s in (step, -step))
        assert truth[i] == pytest.approx((up - down) / 2e-5, abs=1e-9)
    by_place = np.zeros(len(lm.words))
    np.add.at(by_place, lm.owner.numpy(), truth)
    assert np.abs(by_place).max() < 1e-12


@pytest.mark.parametrize("advantage", [{"use": "reinforce", "baseline": 0.3}, "rloo"])
def test_unbiased_by_enumeration(advantage):
    lm = small()
    exact = exact_moments(Bench({**PLAIN, "advantage": advantage,
                                 "rollout": {"use": "chains", "size": 4}}, lm, 4),
                          true_gradient(lm))  # fmt: skip
    np.testing.assert_allclose(exact.mean, true_gradient(lm), atol=1e-6)


def test_a_constant_baseline_is_unbiased_over_all_questions():
    lm = whole()
    recipe = {**PLAIN, "advantage": {"use": "reinforce", "baseline": 0.3}}
    exact = exact_moments(Bench(recipe, lm, 16), true_gradient(lm))
    np.testing.assert_allclose(exact.mean, true_gradient(lm), atol=1e-6)


@pytest.mark.parametrize(
    ("advantage", "size", "slope"),
    [
        ("rloo", 2, 0.21),
        ("dr_grpo", 2, 0.105),  # (G - 1) / G of p (1 - p)
        ("dr_grpo", 4, 0.1575),
        ({"use": "grpo", "eps": 0.0}, 2, 0.1485),  # divided by the sample standard deviation
        ({"use": "grpo", "eps": 0.0}, 4, 0.2973),
    ],
)
def test_worked_biases_of_two_arms(advantage, size, slope):
    """Odds .3 and .7, rewards 1 and 0: the same numbers as ``tests/rl/test_gradient_bias.py``
    finds for the functions alone."""
    lm = arms()
    truth = true_gradient(lm)
    assert sorted(truth[np.abs(truth) > 1e-9]) == pytest.approx([-0.21, 0.21])
    recipe = {**PLAIN, "advantage": advantage, "rollout": {"use": "chains", "size": size}}
    exact = exact_moments(Bench(recipe, lm, size), truth)
    assert exact.mean.max() == pytest.approx(slope, abs=5e-5)
    assert figures(exact, truth)["factor"] == pytest.approx(slope / 0.21, abs=3e-4)


def test_the_groups_mean_costs_a_share_and_no_direction():
    lm = small()
    truth = true_gradient(lm)
    table = {**PLAIN, "advantage": "dr_grpo", "rollout": {"use": "chains", "size": 4}}
    found = figures(exact_moments(Bench(table, lm, 4), truth), truth)
    assert found["factor"] == pytest.approx(3 / 4, abs=1e-6)
    assert found["cosine"] == pytest.approx(1, abs=1e-6)
    table["advantage"] = "grpo"
    biased = figures(exact_moments(Bench(table, lm, 4), truth), truth)
    assert biased["factor"] > 1
    assert biased["variance"] > 0


def test_samples_agree_with_enumeration():
    lm = small()
    truth = true_gradient(lm)
    bench = Bench(table_of("rloo", 4), lm, 4)
    exact = figures(exact_moments(bench, truth), truth)
    drawn = figures(moments(bench.steps(3000, 1), truth), truth)
    for name in ("factor", "variance", "per_call", "per_token"):
        assert drawn[name] == pytest.approx(exact[name], rel=0.1)


def test_shuffled_turns_lose_their_direction():
    lm = whole()
    truth = true_gradient(lm)
    cosines = {
        name: step_cosines(Bench(table_of(name, 8), lm, 8).steps(40, 1).gradient, truth)
        for name in ("grpo", "broken")
    }
    assert cosines["grpo"].mean() > 0.35
    assert abs(cosines["broken"].mean()) < 0.15
    assert np.linalg.norm(truth) > 0
