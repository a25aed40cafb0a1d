"""Intervals and tests over seeds and questions; the full simulations are in the benchmarks."""

import numpy as np
import pytest

from searchgym.evaluation.differences import crossed_interval, crossed_p, sign_flip_p, spread
from searchgym.evaluation.intervals import mean_interval
from searchgym.seeding import stream


def _table(draw: np.random.Generator, seeds: int, n: int, sigma: float) -> np.ndarray:
    """Mean 0, questions and residuals of variance 0.09, seeds of variance σ²."""
    return (
        sigma * draw.standard_normal((seeds, 1))
        + 0.3 * draw.standard_normal((1, n))
        + 0.3 * draw.standard_normal((seeds, n))
    )


def test_mean_squares_by_hand() -> None:
    # seeds' means 1 and 3, questions' means 1, 2 and 3, nothing left over
    found = spread(np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]))
    assert found == pytest.approx((3 * 2.0, 2 * 1.0, 0.0))


def test_mean_squares_estimate_the_components() -> None:
    draw = stream(0, "spread")
    found = np.mean([spread(_table(draw, 3, 50, 0.1)) for _ in range(2_000)], axis=0)
    assert found == pytest.approx((50 * 0.01 + 0.09, 3 * 0.09 + 0.09, 0.09), rel=0.1)


def test_it_covers_where_questions_alone_do_not() -> None:
    draw, trials = stream(1, "crossed"), 400
    both = alone = alarms = 0
    for trial in range(trials):
        table = (_table(draw, 3, 200, 0.04) > 0).astype(float)  # seeds differ by 4 points
        interval = crossed_interval(table, seed=trial, resamples=400)
        both += interval.low <= 0.5 <= interval.high
        questions = mean_interval(table.mean(axis=0), seed=trial, resamples=400)
        alone += questions.low <= 0.5 <= questions.high
        alarms += crossed_p(table - 0.5, seed=trial, resamples=400) < 0.05
    assert both / trials >= 0.92  # 0.95 less three standard errors
    assert alone < both - 0.03 * trials
    assert alarms / trials <= 0.05 + 0.033


def test_it_finds_what_is_there() -> None:
    draw = stream(2, "crossed")
    found = [crossed_p(0.15 + _table(draw, 3, 200, 0.01), resamples=400) for _ in range(100)]
    assert np.mean(np.array(found) < 0.05) > 0.9


def test_one_seed_is_the_sign_flip_test() -> None:
    x = stream(3, "crossed").normal(0.05, 0.3, size=80)
    assert crossed_p(x) == crossed_p([x]) == sign_flip_p(x)
    assert crossed_interval(x) == mean_interval(x)


def test_missing_and_equal_values() -> None:
    assert crossed_p(np.zeros((3, 20))) == 1.0
    assert crossed_p([[np.nan, np.nan], [0.0, 1.0]]) == 1.0
    assert crossed_interval([[np.nan], [1.0]]).n == 0
    everywhere = crossed_interval(np.ones((3, 58)), unit=True)
    assert everywhere.low == pytest.approx(mean_interval(np.ones(58), unit=True).low)


def test_false_alarms_of_sign_flips_are_as_rare_as_they_say() -> None:
    draw, trials = stream(4, "crossed"), 1_000
    alarms = sum(
        sign_flip_p(draw.integers(-1, 2, size=60).astype(float), seed=t, resamples=200) < 0.05
        for t in range(trials)
    )
    assert alarms / trials <= 0.05 + 0.021  # three standard errors
