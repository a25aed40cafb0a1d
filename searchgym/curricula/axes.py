"""The difficulty vector, ten axes with unit and range, and the tasks that a difficulty leaves."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypedDict

from ..errors import CardError, check_known
from ..types import Task


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
    """Position of an episode on each axis; see :data:`AXES`."""

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


def number_table(name: str, given: object) -> Mapping[str, Any]:
    """The value of ``params`` or ``difficulty``: names and numbers, none for None.

    Raises:
        CardError: it is no table.
    """
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise CardError(
        f"{name} is a table of names and numbers such as {{'top_k': 2}}, got {given!r:.80}"
    )


def checked_difficulty(values: Mapping[str, object]) -> dict[str, float]:
    """``values`` as plain numbers, whole ones where an axis is whole.

    Raises:
        CardError: for an unknown axis or a value out of its range; it says what was expected.
    """
    check_known("difficulty axis", AXES, *values)
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


# --- which tasks are left ---------------------------------------------------------------------
def blur(task: Task) -> float | None:
    """The share, in [0, 1], of the entities one must know on the way to the answer that the
    question describes rather than names; ``None`` for a task without a reasoning graph.

    On the way: named, or joined to at least two others (from one fact on to the next). After the
    "blurring" of InfoSeek (arXiv 2509.00375); a single fact has 0, a chain of h facts (h - 1) / h.
    """
    graph = task.graph
    if graph is None:
        return None
    beside: dict[str, set[str]] = {}
    for edge in graph.edges:
        beside.setdefault(edge.subject, set()).add(edge.object)
        beside.setdefault(edge.object, set()).add(edge.subject)
    named = sum(node.given for node in graph.nodes)
    described = sum(
        not node.given and node.id != graph.answer and len(beside.get(node.id, ())) > 1
        for node in graph.nodes
    )
    return described / (named + described) if named + described else 0.0


MEASURES: Mapping[str, Callable[[Task], float | None]] = {
    "hops": lambda task: task.hops,
    "branches": lambda task: None if task.difficulty is None else task.difficulty.branches,
    "blur": blur,
}
"""Measure of a task that each axis compares; ``None`` where a task does not say."""


class TaskPool:
    """Tasks, and for each difficulty those that may be drawn. Subsets are made once and kept, so
    that a curriculum sees equal difficulties as one and the same sequence."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self._measured: dict[str, list[float]] = {}
        self._levels: dict[str, list[float]] = {}
        self._kept: dict[tuple[int, ...], Sequence[Task]] = {}

    def measured(self, axis: str) -> list[float]:
        """Each task's place on an axis; ``CardError`` where one does not say."""
        if axis not in self._measured:
            levels: list[float] = []
            for task in self.tasks:
                if (value := MEASURES[axis](task)) is None:
                    raise CardError(
                        f"the difficulty axis {axis!r} cannot act here: the task {task.id!r} does "
                        "not say where it stands; tasks of generated worlds and of knowledge "
                        "graphs do"
                    )
                levels.append(value)
            self._measured[axis] = levels
            self._levels[axis] = sorted(set(levels))
        return self._measured[axis]

    def within(self, difficulty: Mapping[str, float]) -> Sequence[Task]:
        """The tasks that are at most so hard, in their order; all where no axis is named.

        Raises:
            CardError: no task is.
        """
        limits = {axis: difficulty[axis] for axis in MEASURES if axis in difficulty}
        if not limits:
            return self.tasks
        columns = [(self.measured(axis), limit) for axis, limit in limits.items()]
        # limits between two tasks' values mean the same: as many subsets as values, at most
        name = tuple(
            bisect_right(self._levels[axis], limits[axis]) if axis in limits else -1
            for axis in MEASURES
        )
        if name not in self._kept:
            self._kept[name] = [
                task
                for i, task in enumerate(self.tasks)
                if all(column[i] <= limit for column, limit in columns)
            ]
        if not self._kept[name]:
            least = ", ".join(f"{axis} {min(self.measured(axis)):g}" for axis in limits)
            asked = ", ".join(f"{axis} {limit:g}" for axis, limit in limits.items())
            raise CardError(
                f"no task is within {asked}; the easiest have {least} (not all at once, maybe)"
            )
        return self._kept[name]
