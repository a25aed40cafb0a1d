"""A curriculum that plays tasks which were failed again (DeepTravel)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from searchgym import Task
from searchgym.curricula import Driver
from searchgym.errors import CardError
from searchgym.seeding import derive, unit


class FailureReplay(Driver):
    """Plays with probability ``share`` a task that was failed, else what ``tasks`` chooses.

    A return below ``threshold`` puts a task at the end of a queue of at most ``size``; the oldest
    leaves it, and so does a task whose returns since then reach the threshold in a share
    ``solved`` of its episodes. DeepTravel replays failures from a buffer; only
    its abstract was read, so the queue and all numbers are ours. Combine it with the tool
    ``recorded``, and a failed task meets the same answers again.

    Args:
        size: Tasks that are kept.
        share: Probability of a replay, where any failed task is among those offered.
        threshold: Least return of a success.
        solved: Share of successes with which a task leaves.
        tasks: The curriculum that chooses otherwise; by default each task equally often.

    Raises:
        CardError: a size below 1, or a share or ``solved`` outside [0, 1].
    """

    registered = "curriculum:failure_replay"
    systems: ClassVar[tuple[str, ...]] = ("DeepTravel",)
    learns = True

    def __init__(
        self,
        size: int = 512,
        *,
        share: float = 0.2,
        threshold: float = 0.5,
        solved: float = 0.5,
        tasks: Any = None,
    ) -> None:
        super().__init__(tasks)
        if size < 1 or not 0 <= share <= 1 or not 0 < solved <= 1:
            raise CardError(
                "a queue holds at least 1 task, share lies in [0, 1] and solved in (0, 1]; got "
                f"{size=}, {share=}, {solved=}"
            )
        self.size, self.share, self.threshold, self.solved = size, share, threshold, solved
        self.failed: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Task, the oldest first → successes and episodes since it was failed."""
        self._known: tuple[Sequence[Task], dict[str, int]] | None = None

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return {}

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        if self.failed and unit(derive(key, "replay")) < self.share:
            if self._known is None or self._known[0] is not tasks:
                self._known = tasks, {task.id: i for i, task in enumerate(tasks)}
            places = self._known[1]
            waiting = [places[name] for name in self.failed if name in places]
            if waiting:
                return waiting[derive(key, "failed") % len(waiting)]
        return super().choose(tasks, key)

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        won = reward >= self.threshold
        if task_id in self.failed:
            wins, played = self.failed[task_id]
            self.failed[task_id] = wins + won, played + 1
            if (wins + won) >= self.solved * (played + 1):
                del self.failed[task_id]
        elif not won:
            self.failed[task_id] = 0, 0
            if len(self.failed) > self.size:
                self.failed.popitem(last=False)
        super().observe(task_id, reward, params)

    def metrics(self) -> dict[str, float]:
        """Tasks in the queue."""
        return {"failed": float(len(self.failed))}

    def state_dict(self) -> dict[str, Any]:
        failed = [[name, *counts] for name, counts in self.failed.items()]
        return {**super().state_dict(), "failed": failed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.failed = OrderedDict((str(n), (int(w), int(p))) for n, w, p in state["failed"])
