"""Accuracy against searches: which agents are worth their searches, and what each search buys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .intervals import Interval, mean_interval
from .metrics import Row, column


class Point(NamedTuple):
    """An agent in the plane of cost and score."""

    name: str
    cost: float
    """Mean searches (or dollars, tokens): less is better."""
    score: float
    """Mean metric: more is better."""


def point(name: str, rows: Sequence[Row], metric: str = "f1", cost: str = "searches") -> Point:
    """Mean cost and score of an agent over the questions that were not lost."""
    return Point(
        name, float(np.nanmean(column(rows, cost))), float(np.nanmean(column(rows, metric)))
    )


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other dominates (no dearer and no worse, and not equal in both), by
    ascending cost. Equal points stay together. Points with NaN are left out."""
    out: list[Point] = []
    best = -np.inf
    ordered = sorted((p for p in points if p.cost == p.cost), key=lambda p: (p.cost, -p.score))
    for p in ordered:
        if p.score > best or (out and (p.cost, p.score) == out[-1][1:]):
            out.append(p)
            best = p.score
    return out


def within(
    rows: Sequence[Row], budgets: Sequence[int], metric: str = "em", *, seed: int = 0
) -> dict[int, Interval]:
    """Searches allowed → mean metric if an episode that searched more had scored 0, for every
    budget: how fast an agent earns what it earns, from one evaluation.

    A lower bound of what the agent would do under that budget, of which it was not told.
    """
    values, searches = column(rows, metric), column(rows, "searches")
    return {
        budget: mean_interval(
            np.where(searches > budget, 0.0, values), seed=seed, unit=metric != "searches"
        )
        for budget in budgets
    }
