"""Harder after successes, easier after failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from .window import ByWindow


class LevelBand(ByWindow):
    """Keeps the success rate between ``low`` and ``high`` by moving up and down ``levels``.

    After each ``episodes`` episodes of the present level, whose mean return was at least ``high``:
    one level up; at most ``low``: one down (reasoning-gym's adaptive levels, there per attribute;
    the numbers are ours). A level is a mapping of parameters, axes or others.
    """

    def __init__(
        self,
        levels: Sequence[Mapping[str, float]],
        *,
        low: float = 0.3,
        high: float = 0.8,
        episodes: int = 50,
        tasks: Any = None,
    ) -> None:
        super().__init__(episodes, tasks)
        if not levels or not low < high or episodes < 1:
            raise CardError(
                "a band needs levels, low < high and episodes ≥ 1; got "
                f"{len(levels)} levels, low={low}, high={high}, episodes={episodes}"
            )
        self.levels = tuple(dict(level) for level in levels)
        self.low, self.high = low, high
        self.level = 0

    def own(self) -> Mapping[str, float]:
        return self.levels[self.level]

    def places(self) -> Sequence[Mapping[str, float]]:
        return self.levels

    def look(self, mean: float) -> None:
        if mean >= self.high:
            self.level = min(self.level + 1, len(self.levels) - 1)
        elif mean <= self.low:
            self.level = max(self.level - 1, 0)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "level": self.level}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        level = int(state["level"])
        if not 0 <= level < len(self.levels):
            raise CardError(f"the state is of level {level}, this band has {len(self.levels)}")
        self.level = level
