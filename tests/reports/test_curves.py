"""Smoothing, thinning and seeds as one curve."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from searchgym.charts import Figure, steps
from searchgym.evaluation import over_seeds
from searchgym.reports.curves import centred, ends, mean_curve, span_of, thinned

numbers = st.floats(-1e6, 1e6)


def test_the_centred_mean_by_hand() -> None:
    assert centred([1.0, 3.0, None, 2.0, 6.0], 3) == [1.0, 2.0, 2.5, 4.0, 6.0]
    assert centred([1.0, 2.0, 3.0], 1) == [1.0, 2.0, 3.0]
    assert math.isnan(centred([None, 1.0], 3)[0])


@given(st.floats(-10, 10), st.floats(-10, 10), st.integers(1, 60), st.integers(0, 9))
def test_a_line_that_rises_evenly_stays_where_it_is(
    start: float, slope: float, points: int, half: int
) -> None:
    """At its end, too, where a window that looks back lags behind."""
    line = [start + slope * i for i in range(points)]
    assert centred(line, 2 * half + 1) == pytest.approx(line, abs=1e-9)


def test_the_span_is_odd_and_a_tenth_of_the_line() -> None:
    assert [span_of(n) for n in (1, 9, 10, 40, 100, 120)] == [1, 1, 3, 5, 11, 13]


@given(st.lists(numbers, min_size=1, max_size=400), st.integers(1, 50))
def test_thinning_keeps_the_order_the_end_and_the_range(values: list[float], points: int) -> None:
    line = thinned(list(range(len(values))), values, points)
    assert 1 <= len(line) <= points
    assert [x for x, _ in line] == sorted({x for x, _ in line})
    assert line[-1][0] == len(values) - 1
    assert all(min(values) - 1e-6 <= v <= max(values) + 1e-6 for _, v in line)
    if len(values) <= points:
        assert line == list(enumerate(values))


def test_thinning_leaves_out_what_is_missing() -> None:
    assert thinned([0, 1, 2, 3], [None, 1.0, math.nan, None], 4) == [(1, 1.0)]
    assert thinned([0, 1, 2, 3], [1.0, None, 2.0, 4.0], 2) == [(1, 1.0), (3, 3.0)]
    assert thinned([], [], 3) == []


@given(st.lists(numbers, min_size=3, max_size=8))
def test_intervals_over_seeds_are_student_t(values: list[float]) -> None:
    point = over_seeds(values)
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert point.n == len(values)
    assert point.mean == pytest.approx(sum(values) / len(values), abs=1e-6)
    assert point.high - point.mean == pytest.approx(half, rel=1e-5, abs=1e-6)
    assert point.mean - point.low == pytest.approx(half, rel=1e-5, abs=1e-6)


def test_two_seeds_have_no_interval() -> None:
    point = over_seeds([1.0, 3.0])
    assert (point.mean, point.low, point.high, point.n) == (2.0, 2.0, 2.0, 2)


def test_the_interval_of_three_seeds_by_hand() -> None:
    point = over_seeds([1.0, 2.0, 3.0])
    assert point.high - point.mean == pytest.approx(4.302653 / 3**0.5)  # t(.975, 2) × 1 / √3


def test_seeds_of_unequal_length() -> None:
    points = mean_curve([[(0, 1.0), (1, 3.0)], [(0, 2.0)]])
    assert [(x, p.mean, p.n) for x, p in points] == [(0, 1.5, 2), (1, 3.0, 1)]
    assert (points[1][1].low, points[1][1].high) == (3.0, 3.0)


def test_first_and_last() -> None:
    assert ends([float(i) for i in range(100)]) == (4.5, 94.5)
    assert ends([1.0, 2.0, 3.0]) == (1.0, 3.0)
    assert ends([None, 5.0]) == (5.0, 5.0)
    assert ends([None]) == (None, None)


@pytest.mark.parametrize("most", [1, 2, 6, 12, 300])
def test_ticks_of_counts_are_whole_and_different(most: int) -> None:
    rows = [{"x": x, "series": "a", "mean": 0.5, "low": 0.4, "high": 0.6} for x in (0, most)]
    drawn = steps(rows, ["a"], "searches allowed", "EM").to_dict()
    axes = [layer["encoding"]["x"].get("axis") for layer in drawn["layer"]]
    for axis in filter(None, axes):
        assert axis["tickMinStep"] == 1
        assert axis["tickCount"] <= most
        assert axis.get("values", [0, 1]) == list(range(len(axis.get("values", [0, 1]))))


def test_a_figure_says_in_one_line_what_it_shows() -> None:
    """What an interactive session prints, however many marks there are."""
    rows = tuple({"x": i, "y": i} for i in range(1_000))
    figure = Figure("f1", "It rises", "How F1 grows", "a line", lambda **_: None, rows)
    assert repr(figure) == "<Figure 'f1': It rises; save(folder) writes PNG, SVG, CSV and JSON>"
