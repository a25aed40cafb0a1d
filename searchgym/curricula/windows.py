"""Places on the axes that are left after a window of episodes: a band of levels, and a bandit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from ..seeding import derive, stream
from ..types import Task
from .axes import difficulty_of
from .base import Driver


class ByWindow(Driver):
    """A curriculum that moves by windows of episodes.

    Whenever ``window`` episodes of the present place have ended, :meth:`look` is told their mean
    return.

    Episodes that began at another place are not counted, so it may drive many slots at once.
    """

    learns = True

    def __init__(self, window: int, tasks: Any = None) -> None:
        super().__init__(tasks)
        self.window = window
        self.seen, self.total = 0, 0.0

    def places(self) -> Sequence[Mapping[str, float]]:
        """Return all places at which :meth:`own` may be."""
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
        """True if an episode was played at the present place: of those that fit, the one that says
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
    """True if an episode was played with these parameters, whatever else it had. Axes that are
    whole were played as whole numbers."""
    return all(played.get(k) == v for k, v in {**own, **difficulty_of(own)}.items())


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

    def own(self, task: Task | None = None) -> Mapping[str, float]:
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


class AxisBandit(ByWindow):
    """Chooses among ``arms``, each a mapping of parameters: a place on one axis or several.

    Teacher-Student Curriculum Learning (arXiv 1707.00183), Online algorithm, ε-greedy: an arm is
    held for ``hold`` finished episodes; its reward is the change of their mean return since its
    last turn; its value Q moves by ``rate`` of the difference to that. The arm with the largest |Q|
    is next (falling returns ask for practice, too), and with probability ``explore`` any arm.
    Arms that were not played twice come first, in order: nothing is known of them (ours).

    Which arm comes next depends on ``seed`` and what was observed, nothing else.
    """

    def __init__(
        self,
        arms: Sequence[Mapping[str, float]],
        *,
        hold: int = 32,
        rate: float = 0.3,
        explore: float = 0.2,
        seed: int = 0,
        tasks: Any = None,
    ) -> None:
        super().__init__(hold, tasks)
        if len(arms) < 2 or hold < 1 or not 0 < rate <= 1 or not 0 <= explore <= 1:
            raise CardError(
                "a bandit needs two arms, hold ≥ 1, 0 < rate ≤ 1 and 0 ≤ explore ≤ 1; got "
                f"{len(arms)} arms, hold={hold}, rate={rate}, explore={explore}"
            )
        self.arms = tuple(dict(arm) for arm in arms)
        if any(a == b for i, a in enumerate(self.arms) for b in self.arms[:i]):
            raise CardError(f"two arms are the same: {list(self.arms)}")
        self.rate, self.explore, self.seed = rate, explore, seed
        self.value = [0.0] * len(self.arms)
        self.last: list[float | None] = [None] * len(self.arms)
        self.pulls = [0] * len(self.arms)
        self.arm = 0

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return self.arms[self.arm]

    def places(self) -> Sequence[Mapping[str, float]]:
        return self.arms

    def look(self, mean: float) -> None:
        arm = self.arm
        if (before := self.last[arm]) is not None:
            self.value[arm] += self.rate * (mean - before - self.value[arm])
        self.last[arm] = mean
        self.pulls[arm] += 1
        self.arm = self._next()

    def _next(self) -> int:
        fewest = min(self.pulls)
        if fewest < 2:
            return self.pulls.index(fewest)
        rng = stream(derive(self.seed, "bandit"), sum(self.pulls))
        if rng.random() < self.explore:
            return int(rng.integers(len(self.arms)))
        return max(range(len(self.arms)), key=lambda i: abs(self.value[i]))

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(), "value": list(self.value), "last": list(self.last),
            "pulls": list(self.pulls), "arm": self.arm,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if len(state["value"]) != len(self.arms):
            raise CardError(f"the state is of {len(state['value'])} arms, not {len(self.arms)}")
        self.value = [float(v) for v in state["value"]]
        self.last = [None if v is None else float(v) for v in state["last"]]
        self.pulls = [int(v) for v in state["pulls"]]
        self.arm = int(state["arm"])
