"""What curricula have in common that stay at a place for some episodes, then look at their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .axes import difficulty_of
from .base import Driver


class ByWindow(Driver):
    """After each ``window`` episodes of the present place :meth:`look` is told their mean return.

    Episodes that began at another place are not counted, so it may drive many slots at once.
    """

    def __init__(self, window: int, tasks: Any = None) -> None:
        super().__init__(tasks)
        self.window = window
        self.seen, self.total = 0, 0.0

    def places(self) -> Sequence[Mapping[str, float]]:
        """Wherever :meth:`own` may be."""
        raise NotImplementedError

    def look(self, mean: float) -> None:
        """A window has ended: decide where to go."""
        raise NotImplementedError

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        super().observe(task_id, reward, params)
        if params is not None and not self._here(params):
            return
        self.seen, self.total = self.seen + 1, self.total + reward
        if self.seen >= self.window:
            self.look(self.total / self.seen)
            self.seen, self.total = 0, 0.0

    def _here(self, played: Mapping[str, float]) -> bool:
        """Whether an episode was played at the present place: of those that fit, the one that says
        most, since an empty place fits every episode."""
        own = self.own()
        most = max((len(place) for place in self.places() if _same(place, played)), default=0)
        return _same(own, played) and len(own) >= most

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "seen": self.seen, "total": self.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.seen, self.total = int(state["seen"]), float(state["total"])


def _same(own: Mapping[str, float], played: Mapping[str, float]) -> bool:
    """Whether an episode was played with these parameters, whatever else it had. Axes that are
    whole were played as whole numbers."""
    return all(played.get(k) == v for k, v in {**own, **difficulty_of(own)}.items())
