"""Which tasks a difficulty leaves: the axes ``hops``, ``branches`` and ``blur``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from ..errors import CardError
from ..types import Task


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


def _branches(task: Task) -> float | None:
    return None if task.difficulty is None else task.difficulty.branches


MEASURES: Mapping[str, Callable[[Task], float | None]] = {
    "hops": lambda task: task.hops,
    "branches": _branches,
    "blur": blur,
}
"""What an axis compares; ``None`` where a task does not say."""


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
            found: list[float] = []
            for task in self.tasks:
                if (value := MEASURES[axis](task)) is None:
                    raise CardError(
                        f"the difficulty axis {axis!r} cannot act here: the task {task.id!r} does "
                        "not say where it stands; tasks of generated worlds and of knowledge "
                        "graphs do"
                    )
                found.append(value)
            self._measured[axis] = found
            self._levels[axis] = sorted(set(found))
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
