"""ODE, on-policy data evolution (arXiv 2605.10832): a curriculum whose configuration of tasks
follows the agent.

The paper's analyst and optimiser are language models that read rollouts; here a rule reads the
success of a window of episodes (ours). The configuration stands on a path through all axes that
hardens them in turn, a level at a time; it moves along the path by growing steps while tasks are
too easy or too hard, and halves the way between two such places. Where one level of an axis leads
from too easy to too hard, the axis stays below it and the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from searchgym.curricula.axes import MEASURES
from searchgym.curricula.drivers import ByWindow
from searchgym.errors import CardError
from searchgym.types import Task

AXES: Mapping[str, tuple[float, ...]] = {
    "hops": (1, 2, 3, 4, 5, 6), "branches": (1, 2, 3), "distractors": (0, 1, 2, 4, 8),
}  # fmt: skip
"""Levels of each axis, the easiest first; the paper's blur and noise are further ones, for tasks
and engines that have them (ours)."""


class ODE(ByWindow):
    """Keeps the success of an agent between ``low`` and ``high`` by editing one configuration.

    Episodes of the infrastructure's failures are not counted, as of all curricula. Of the tasks
    within the configuration, those are drawn that reach it on most axes.

    Args:
        axes: Axis → its levels, the easiest first.
        low: Mean return below which tasks are too hard.
        high: Mean return above which they are too easy.
        window: Episodes of one configuration that are looked at (the paper's 32 tasks a step).
        tasks: A curriculum, which chooses among the tasks that reach the configuration.

    Raises:
        CardError: an axis without levels, or bounds that leave no room.
    """

    registered = "curriculum:ode"
    systems: ClassVar[tuple[str, ...]] = ("ODE",)

    def __init__(
        self,
        axes: Mapping[str, Sequence[float]] | None = None,
        *,
        low: float = 0.2,
        high: float = 0.8,
        window: int = 32,
        tasks: Any = None,
    ) -> None:
        super().__init__(window, tasks)
        self.axes = {name: tuple(levels) for name, levels in (axes or AXES).items()}
        if not all(self.axes.values()) or not 0 <= low < high <= 1 or window < 1:
            raise CardError(
                "ode needs levels of every axis, 0 <= low < high <= 1 and window >= 1; got "
                f"{self.axes}, low={low}, high={high}, window={window}"
            )
        self.low, self.high = low, high
        self.place, self.step, self.windows = 0, 1, 0
        self.easy: int | None = None
        """The hardest place that was too easy since the last good one, ``hard`` the easiest one
        that was too hard; both None where that is not known."""
        self.hard: int | None = None
        self.caps = {name: len(levels) - 1 for name, levels in self.axes.items()}
        self.log: list[dict[str, Any]] = []
        """Windows in order: what was judged of which configuration, and the edits that followed."""
        self._fitting: tuple[Sequence[Task], list[int]] | None = None

    @property
    def end(self) -> int:
        """The last place of the path."""
        return sum(self.caps.values())

    def configuration(self, place: int) -> dict[str, float]:
        """Axis → value at a place of the path."""
        levels = dict.fromkeys(self.axes, 0)
        left = min(place, self.end)
        while left:
            for name in self.axes:
                if left and levels[name] < self.caps[name]:
                    levels[name] += 1
                    left -= 1
        return {name: self.axes[name][level] for name, level in levels.items()}

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return self.configuration(self.place)

    def places(self) -> Sequence[Mapping[str, float]]:
        return [self.own()]

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        if self._fitting is None or self._fitting[0] is not tasks:
            limits = [(MEASURES[axis], v) for axis, v in self.own().items() if axis in MEASURES]
            reached = [sum(of(task) == limit for of, limit in limits) for task in tasks]
            best = max(reached)
            self._fitting = tasks, [i for i, number in enumerate(reached) if number == best]
        fitting = self._fitting[1]
        return fitting[self.tasks.choose([tasks[i] for i in fitting], key)]

    def look(self, mean: float) -> None:
        before, self.windows = self.own(), self.windows + 1
        verdict = "good_match"
        if mean > self.high:
            verdict, self.easy = "too_easy", self.place
            if self.hard is not None and self.hard <= self.place:
                self.hard = None  # the agent has learnt
        elif mean < self.low:
            verdict, self.hard = "too_hard", self.place
            if self.easy is not None and self.easy >= self.place:
                self.easy = None
        else:
            self.easy = self.hard = None
            self.step = 1
        if verdict != "good_match":
            self._move(1 if verdict == "too_easy" else -1)
        after = self.own()
        edits = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        self.log.append(
            {"window": self.windows, "success": mean, "verdict": verdict, "edits": edits}
        )

    def _move(self, way: int) -> None:
        if self.easy is None or self.hard is None:
            if way > 0 and self.place >= self.end:  # what was too hard once may no more be
                self.caps = {name: len(levels) - 1 for name, levels in self.axes.items()}
                self.step = 1
            self.place = min(self.end, max(0, self.place + way * self.step))
            self.step *= 2
        elif self.hard - self.easy > 1:
            self.place = (self.easy + self.hard) // 2
        else:
            below, above = self.configuration(self.easy), self.configuration(self.hard)
            steep = next(name for name in below if below[name] != above[name])
            self.caps[steep] = self.axes[steep].index(below[steep])
            self.place, self.step, self.hard = min(self.hard, self.end), 1, None
        self._fitting = None

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(), "place": self.place, "step": self.step, "easy": self.easy,
            "hard": self.hard, "caps": dict(self.caps), "windows": self.windows,
            "log": [dict(entry) for entry in self.log],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if set(state["caps"]) != set(self.axes):
            raise CardError(f"the state has the axes {[*state['caps']]}, not {[*self.axes]}")
        self.place, self.step = int(state["place"]), int(state["step"])
        self.easy, self.hard, self.windows = state["easy"], state["hard"], int(state["windows"])
        self.caps = {name: int(cap) for name, cap in state["caps"].items()}
        self.log = [dict(entry) for entry in state["log"]]
        self._fitting = None
