"""Unbiased pass@k against its definition, and Avg@k."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from searchgym.errors import EvaluationError
from searchgym.evaluation.metrics import Row
from searchgym.evaluation.summaries import avg_at, pass_at, pass_at_k
from searchgym.seeding import stream


def row(task: str, em: float, end: str = "answered", f1: float = 0.5) -> Row:
    return Row(task, "simple", 1, em, f1, em, float("nan"), 0, 1, 0, end, 0, "")


def test_the_worked_number() -> None:
    assert pass_at_k(10, 3, 3) == pytest.approx(0.7083333, abs=1e-7)


def test_it_is_the_formula_exactly() -> None:
    for n in range(1, 13):
        for c in range(n + 1):
            for k in range(1, n + 1):
                exact = 1 - Fraction(comb(n - c, k), comb(n, k))
                assert pass_at_k(n, c, k) == pytest.approx(float(exact), abs=1e-14)


def test_large_counts_neither_overflow_nor_lose_digits() -> None:
    for n, c, k in ((20_000, 10_000, 10_000), (20_000, 7, 300), (20_000, 1, 1)):
        exact = 1 - Fraction(comb(n - c, k), comb(n, k))
        assert pass_at_k(n, c, k) == pytest.approx(float(exact), rel=1e-11)
    assert pass_at_k(10**6, 1, 1) == pytest.approx(1e-6, rel=1e-9)
    assert pass_at_k(100_000, 3, 50_000) == pytest.approx(0.875, abs=1e-4)


def test_it_is_unbiased() -> None:
    """The mean over many groups of n is what k fresh samples would give; c/n-based plug-ins are
    not."""
    p, n, k = 0.15, 8, 4
    right = stream(1, "pass@k").binomial(n, p, size=40_000)
    truth = 1 - (1 - p) ** k
    assert np.mean([pass_at_k(n, int(c), k) for c in right]) == pytest.approx(truth, abs=0.004)
    assert abs(np.mean(1 - (1 - right / n) ** k) - truth) > 0.01


def test_impossible_counts() -> None:
    for n, c, k in ((3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0), (0, 0, 1)):
        with pytest.raises(EvaluationError, match="needs 1"):
            pass_at_k(n, c, k)


def test_over_questions() -> None:
    rows = [row("a", em) for em in (1, 0, 0, 1)] + [row("b", 0) for _ in range(4)]
    found = pass_at(rows, (1, 2, 4), resamples=500)
    assert found[1].mean == pytest.approx((0.5 + 0) / 2)
    assert found[2].mean == pytest.approx((pass_at_k(4, 2, 2) + 0) / 2)
    assert found[4].mean == pytest.approx(0.5)
    assert found[1].n == 2
    assert pass_at(rows, (1,), "f1", resamples=500)[1].mean == 0.0, "half right is not right"
    with pytest.raises(EvaluationError, match="'a' has 4"):
        pass_at(rows, (5,))
    with pytest.raises(EvaluationError, match="k ≥ 1"):
        pass_at(rows, (0,))


def test_lost_samples_do_not_count() -> None:
    rows = [row("a", 1), row("a", 0), row("a", 0, "infra_error"), *[row("b", 1)] * 3]
    found = pass_at(rows, (1, 2, 3), resamples=500)
    assert found[1].mean == pytest.approx((0.5 + 1) / 2)
    assert found[2].mean == 1.0
    assert (found[3].mean, found[3].n) == (1.0, 1)


def test_averages_of_the_first_samples() -> None:
    rows = [row("a", em) for em in (1, 0, 0, 1)] + [row("b", em) for em in (0, 1, 1, 1)]
    assert avg_at(rows, 1).mean == 0.5
    assert avg_at(rows, 3).mean == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert (avg_at(rows, 4).mean, avg_at(rows, 4).n) == (0.625, 2)
    assert avg_at([row("a", 1), row("a", 0, "infra_error"), *[row("b", 0)] * 2], 2).mean == 0.5
    lost = [row("a", 1, "infra_error"), row("b", 0)]
    assert (avg_at(lost, 1).mean, avg_at(lost, 1).n) == (0.0, 1)
    with pytest.raises(EvaluationError, match=r"Avg@5 needs 5 samples.*'a' has 4"):
        avg_at(rows, 5)
    with pytest.raises(EvaluationError, match="k ≥ 1"):
        avg_at(rows, 0)


def test_samples_of_one_question_are_no_more_questions() -> None:
    """Asking twenty questions fifty times says little about other questions."""
    right = stream(2, "avg").random(20) < 0.5
    rows = [row(f"q{i}", float(r)) for i, r in enumerate(right) for _ in range(50)]
    found = avg_at(rows, 50)
    assert found.n == 20
    assert found.high - found.low > 0.3
