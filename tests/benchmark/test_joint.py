"""Means drawn together: differences and ratios over other questions and other seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.benchmark.gains import (
    Joint,
    MetricTable,
    complete,
    difference,
    independent_difference,
    ratio,
)
from searchgym.errors import EvaluationError
from searchgym.evaluation import Interval, crossed_interval, mean_interval

from .coverage import coverage


def table(values: object, name: str = "q") -> MetricTable:
    found = np.atleast_2d(np.asarray(values, dtype=float))
    return MetricTable(found, tuple(f"{name}{i}" for i in range(found.shape[1])))


def test_intervals_of_the_ratio_hold_the_truth() -> None:
    """±.04 at 200 trials; the benchmark of the same name is the tighter one."""
    for seeds, spread in ((1, 0.0), (3, 0.03)):
        share, *_ = coverage(200, seeds=seeds, questions=100, spread=spread, resamples=200)
        assert 0.91 <= share <= 0.99, (seeds, share)


def test_one_set_is_what_crossed_intervals_say() -> None:
    rng = np.random.default_rng(0)
    values = (rng.random((3, 400)) < np.array([[0.55], [0.6], [0.68]])).astype(float)
    drawn = Joint(0, 20_000).means([[table(values)]])[:, 0]
    low, high = np.quantile(drawn, [0.025, 0.975])
    other = crossed_interval(values, resamples=20_000)
    assert (low, high) == pytest.approx((other.low, other.high), abs=0.02)


def test_equal_questions_are_resampled_together() -> None:
    rng = np.random.default_rng(1)
    x = rng.random(200)
    drawn = Joint().means([[table(x)], [table(x / 2)]])
    assert drawn[:, 1] == pytest.approx(drawn[:, 0] / 2)
    apart = Joint().means([[table(x)], [table(x, "other")]])
    assert abs(np.corrcoef(apart.T)[0, 1]) < 0.1
    same = ratio([table(x / 2)], [table(x)], Joint())
    assert same is not None
    assert (same.mean, same.low, same.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_lucky_seed_is_lucky_on_both_sides() -> None:
    rng = np.random.default_rng(2)
    luck = np.array([[-0.1], [0.0], [0.1]])
    a = table((rng.random((3, 500)) < 0.4 + luck).astype(float), "a")
    b = table((rng.random((3, 500)) < 0.8 + luck).astype(float), "b")
    joint = Joint(0, 1_000)
    assert np.corrcoef(joint.means([[a], [b]]).T)[0, 1] > 0.9
    found = difference([b], [a], joint)
    assert found.high - found.low < 0.2, "what both sides share is no doubt about the difference"
    assert found.method.endswith("3 seeds")


def test_nothing_gained_in_simulation_is_no_denominator() -> None:
    rng = np.random.default_rng(3)
    none = table(rng.choice([-1.0, 0.0, 1.0], 300), "sim")
    assert ratio([table(np.ones(50), "real")], [none], Joint()) is None
    worse = table(np.full(300, -0.5), "sim")
    assert ratio([table(np.ones(50), "real")], [worse], Joint()) is None


def test_sets_are_averaged_with_equal_weight() -> None:
    small, large = table(np.ones(10), "s"), table(np.zeros(1000), "l")
    found = ratio([small, large], [table(np.ones(100), "sim")], Joint())
    assert found is not None
    assert (found.mean, found.n) == (0.5, 1010)


@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=60),
    st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=60),
)
def test_independent_differences_have_a_width(a: list[float], b: list[float]) -> None:
    x, y = mean_interval(a, unit=True, resamples=200), mean_interval(b, unit=True, resamples=200)
    found, back = independent_difference(x, y), independent_difference(y, x)
    assert found.low <= found.mean <= found.high
    assert found.high - found.low > 0.2, "sixty questions and fewer say little"
    assert found.low >= -1
    assert found.high <= 1
    assert (found.low, found.high) == pytest.approx((-back.high, -back.low))


def test_lost_questions_are_left_out_and_wrong_calls_named() -> None:
    found = complete(np.array([[1.0, np.nan, 0.0], [1.0, 1.0, 1.0]]), ["a", "b", "c"])
    assert found.questions == ("a", "c")
    assert found.values.tolist() == [[1, 0], [1, 1]]
    with pytest.raises(EvaluationError, match="seeds"):
        Joint().means([[table(np.ones((2, 5)))], [table(np.ones((3, 5)))]])
    with pytest.raises(EvaluationError, match="questions"):
        Joint().means([[MetricTable(np.ones((1, 0)), ())]])
    nothing = Interval(float("nan"), float("nan"), float("nan"), 0, "none")
    assert independent_difference(nothing, nothing).n == 0
