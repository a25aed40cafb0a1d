"""A bandit that plays where the agent is learning most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from ..seeding import derive, stream
from .window import ByWindow


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

    def own(self) -> Mapping[str, float]:
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
