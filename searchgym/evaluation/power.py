"""Smallest difference that a question set can show (statistical power).

Two agents answer the same questions; each question counts 1, 0 or -1 for the first. Only questions
on which they disagree say anything. Connor, "Sample size for testing differences in proportions for
the paired-sample design", Biometrics 43 (1987), solved for the difference.
"""

from __future__ import annotations

from math import inf
from statistics import NormalDist

from ..errors import EvaluationError

DISAGREE = 0.25
"""Share of questions that just one of two agents gets right, where nothing better is known."""
ENOUGH = 0.05
"""A set that shows differences of five points needs no note."""


def detectable(
    questions: int, *, disagree: float = DISAGREE, level: float = 0.95, power: float = 0.8
) -> float:
    """The smallest true difference in accuracy, in [0, 1], that a two-sided paired test at
    ``1 - level`` finds with probability ``power``. Infinite where it would lie above ``disagree``,
    beyond which no difference is possible.

    Raises:
        EvaluationError: no questions, or a share that is not in (0, 1].
    """
    if questions < 1 or not 0 < disagree <= 1:
        raise EvaluationError(
            f"power needs questions ≥ 1 and 0 < disagree ≤ 1, got {questions} and {disagree}"
        )
    normal = NormalDist()
    a, b = normal.inv_cdf(0.5 + level / 2), normal.inv_cdf(power)
    # d √n = a √q + b √(q - d²), squared and solved for d
    n, q = questions, disagree
    p = n + b * b
    root = a * a * n * q - p * (a * a * q - b * b * q)
    difference = inf if root < 0 else (a * (n * q) ** 0.5 + root**0.5) / p
    return difference if difference <= disagree else inf


def power_note(questions: int, *, enough: float = ENOUGH) -> str | None:
    """A sentence for readers of a table whose question set is too small, else None."""
    difference = detectable(questions)
    if difference <= enough:
        return None
    normal = NormalDist()
    half = normal.inv_cdf(0.975) * (0.25 / questions) ** 0.5
    needed = questions
    while detectable(needed) > enough:
        needed = int(needed * 1.05) + 1
    told = (
        f"no difference between two agents that disagree on {100 * DISAGREE:.0f} % of them can be "
        "told apart reliably"
        if difference == inf
        else f"two agents must differ by about {100 * difference:.0f} points to be told apart four "
        "times in five"
    )
    return (
        f"{questions:,} questions are few: an accuracy near one half is known to ±{100 * half:.0f} "
        f"points, and {told}; {100 * enough:.0f} points take about {_round(needed):,} questions"
    )


def _round(number: int) -> int:
    return -(-number // 50) * 50
