"""The difficulty vector: ten axes, each with its unit, its range and what it does to an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypedDict

from ..errors import CardError, unknown


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. ``whole``: only whole numbers mean something; what lies between (a schedule on its
    way) counts as the whole number below."""

    low: float
    high: float
    whole: bool
    unit: str
    does: str

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} in [{self.low:g}, {self.high:g}], {self.unit}"


AXES: Mapping[str, Axis] = {
    "noise": Axis(
        0, 1, False, "a probability",
        "a hit is replaced by one for another query (engine 'degraded'); a query's documents are "
        "noisy (engines 'simulated', 'simulated_rules')",
    ),
    "distractors": Axis(
        0, 100, True, "passages per query",
        "passages that the query does not find stand among its hits; no hit is lost",
    ),
    "hops": Axis(1, 100, True, "facts in a row", "only tasks with at most so many are drawn"),
    "branches": Axis(1, 100, True, "chains joined", "only tasks with at most so many are drawn"),
    "blur": Axis(
        0, 1, False, "a share of the entities one must know",
        "only tasks are drawn whose question describes at most that share and names the others",
    ),
    "top_k": Axis(1, 1_000, True, "hits per query", "how many hits a query gets"),
    "truncation": Axis(
        1, 1_000_000, True, "characters of each hit", "how much of a hit's text is shown"
    ),
    "turns": Axis(1, 1_000, True, "turns, the answer's included", "when an episode is truncated"),
    "tools": Axis(
        0, 100, True, "tools", "only so many are offered, the first of the environment's list"
    ),
    "cost": Axis(0, 100, False, "reward per query", "what each query costs (part 'search')"),
}  # fmt: skip
"""Name → axis. What is not named keeps the environment's own setting. Most are harder the larger
they are; ``top_k``, ``truncation``, ``turns`` and ``tools`` the smaller they are."""


class DifficultyVector(TypedDict, total=False):
    """Where an episode is on each axis; see :data:`AXES`."""

    noise: float
    distractors: int
    hops: int
    branches: int
    blur: float
    top_k: int
    truncation: int
    turns: int
    tools: int
    cost: float


def checked_difficulty(values: Mapping[str, object]) -> dict[str, float]:
    """``values`` as plain numbers, whole ones where an axis is whole.

    Raises:
        CardError: for an unknown axis or a value out of its range; it says what was expected.
    """
    for name in values:
        if name not in AXES:
            raise CardError(unknown("difficulty axis", str(name), AXES))
    return difficulty_of(values)


def difficulty_of(params: Mapping[str, object]) -> dict[str, float]:
    """The axes among an episode's parameters, checked as :func:`checked_difficulty` does. Others
    (``dead``, ``w_evidence``, …) are left out: engines and rewards have a say in those."""
    return {name: _value(name, value) for name, value in params.items() if name in AXES}


def _value(name: str, value: object) -> float:
    axis = AXES[name]
    plain = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    # a schedule that arrives at 3 may give 2.9999999999999996
    number = math.floor(float(value) + 1e-9) if plain and axis.whole else value  # type: ignore[arg-type]
    if not plain or not axis.low <= number <= axis.high:  # type: ignore[operator]
        raise CardError(f"the difficulty axis {name!r} is {axis}; got {value!r}")
    return number if isinstance(number, int) else float(number)  # type: ignore[arg-type]
