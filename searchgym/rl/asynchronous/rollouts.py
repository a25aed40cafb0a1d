"""Asynchronous rollouts: worker processes keep playing while the trainer updates the weights."""

from __future__ import annotations

import math
import multiprocessing
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar

from ...errors import CardError, EngineError
from ..recipe import Recipe
from ..slots.records import Group, TaskPlan
from .worker import Job, Make, Worker, WorkerLostError, new_folder, pick_staging_dir, publish

if TYPE_CHECKING:
    from torch import Tensor


class AdmissionControl:
    """Counts rollouts that start and end, and bounds how many more may start.

    Args:
        batch: Rollouts per update.
        eta: Updates that a rollout may lag behind; 0 is synchronous training. With a fraction, so
            many of an update's rollouts are begun ahead, and none lags by more than ⌈η⌉ updates.

    Raises:
        CardError: an argument out of range.
    """

    def __init__(self, batch: int, eta: float) -> None:
        if batch < 1 or not 0 <= eta < math.inf:
            raise CardError(f"batch must be at least 1, eta at least 0; got {batch}, {eta}")
        self.batch, self.eta = batch, eta
        self.version = 0
        self.accepted = 0
        """Rollouts trained on, or finished and waiting for it."""
        self.running = 0

    @property
    def age(self) -> int:
        """Updates that a rollout may lag behind, as a whole number."""
        return math.ceil(self.eta)

    @property
    def capacity(self) -> int:
        """Number of rollouts that may start now."""
        ahead = math.ceil(round(self.eta * self.batch, 9))  # 0.7 · 10 is a little more than 7
        allowed = ahead + (self.version + 1) * self.batch
        return max(allowed - self.accepted - self.running, 0)

    def start(self, count: int = 1) -> None:
        """Start ``count`` rollouts; ``ValueError`` if there is no room."""
        if not 0 <= count <= self.capacity:
            raise ValueError(f"{count} rollouts may not start: there is room for {self.capacity}")
        self.running += count

    def accept(self, count: int = 1) -> None:
        """Mark ``count`` running rollouts as finished, to be trained on."""
        if not 0 <= count <= self.running:
            raise ValueError(f"{count} rollouts cannot end: {self.running} are running")
        self.running -= count
        self.accepted += count

    def release(self, count: int = 1) -> None:
        """Discard ``count`` accepted rollouts."""
        if not 0 <= count <= self.accepted:
            raise ValueError(f"{count} cannot be released: {self.accepted} were accepted")
        self.accepted -= count

    def updated(self) -> None:
        """Advance the version of the weights by one."""
        self.version += 1

    def recover(self, version: int) -> None:
        """Restart at ``version``; running and waiting rollouts are lost."""
        self.version, self.accepted, self.running = version, version * self.batch, 0


Late = Literal["wait", "drop"]
T = TypeVar("T")


class Chosen(NamedTuple, Generic[T]):
    """The rollouts of one update."""

    items: list[T]
    """Rollouts in the order in which they began."""
    lags: list[int]
    """Updates between each rollout's start and this one, at most ⌈η⌉."""


class Waiting(Generic[T]):
    """Holds running and finished rollouts, oldest first, and keeps an :class:`AdmissionControl`
    informed.

    No rollout is trained on more than ⌈η⌉ updates after it began. ``late="wait"``: an update waits
    until those that are still under way fit into the updates that are left for them, so that none
    is ever lost. ``late="drop"``: it takes the first ``batch`` that are finished, and who comes too
    late is thrown away. That never waits for a slow rollout, and seldom learns from one.

    Of the finished an update takes those that began first: their deadline is nearest.
    """

    def __init__(self, control: AdmissionControl, late: Late = "wait") -> None:
        if late not in ("wait", "drop"):
            raise CardError(f"late is 'wait' or 'drop', got {late!r}")
        self.control, self.late = control, late
        self.dropped = 0
        """Rollouts discarded for their age so far."""
        self._next = 0
        self._begun: dict[int, int] = {}
        """Ticket → version at its start."""
        self._done: dict[int, tuple[int, T]] = {}

    def __len__(self) -> int:
        """Number of rollouts that run or are finished and not taken yet."""
        return len(self._begun) + len(self._done)

    def begin(self) -> int:
        """Start a rollout; returns the ticket to :meth:`finish` it by."""
        self.control.start()
        ticket, self._next = self._next, self._next + 1
        self._begun[ticket] = self.control.version
        return ticket

    def finish(self, ticket: int, item: T) -> None:
        """Hand in a finished rollout."""
        began = self._begun.pop(ticket)
        self.control.accept()
        self._done[ticket] = (began, item)
        self._forget()

    @property
    def ready(self) -> bool:
        """True if the next update can be made."""
        if len(self._done) < self.control.batch:
            return False
        if self.late == "drop":
            return True
        # One that began at version u can be taken up to update u + η. Once this update is made,
        # (u + η - v) · batch places are left for it and for all that are older. The batch itself
        # is the oldest of the finished, so that only those still under way can be in trouble.
        v, eta, batch = self.control.version, self.control.age, self.control.batch
        return all(i < (u + eta - v) * batch for i, u in enumerate(sorted(self._begun.values())))

    def take(self) -> Chosen[T]:
        """Take the rollouts of the next update, which must be ``ready``."""
        if not self.ready:
            raise ValueError(f"no update is ready: {len(self._done)} finished, {len(self)} in all")
        taken = [self._done.pop(t) for t in sorted(self._done)[: self.control.batch]]
        return Chosen([item for _, item in taken], [self.control.version - v for v, _ in taken])

    def again(self, count: int) -> None:
        """Replace ``count`` of those just taken, which will not be trained on, by others."""
        self.control.release(count)

    def updated(self) -> None:
        """Count an update, and discard what is too old for the next."""
        self.control.updated()
        self._forget()

    def _forget(self) -> None:
        limit = self.control.version - self.control.age
        old = [t for t, (began, _) in self._done.items() if began < limit]
        for ticket in old:
            del self._done[ticket]
        self.control.release(len(old))
        self.dropped += len(old)


class AsyncRollouts:
    """Plays a trainer's groups in processes of their own, beside the training.

        with AsyncRollouts(make, workers=2, eta=1) as rollouts:
            trainer = Trainer(
                env, lm, "decoupled_ppo", policy=policy, rollouts=rollouts
            )

    Each group is trained on at most ``eta`` updates after it began (:class:`Waiting`), usually by
    weights it was not sampled with: use the loss ``decoupled``. Workers take over new weights
    between two turns, also within an episode; every token carries the version that drew it. With
    ``eta=0`` the numbers are the synchronous trainer's; otherwise what is trained on depends on who
    is done first and does not repeat. What was under way when a run was cut is lost; a resumed one
    goes on with the tasks after those.

    Args:
        make: Builds a worker's policy and environment in its process; see :data:`worker.Make`.
        workers: Number of processes.
        eta: Maximum number of updates between a group's start and its training; with a fraction,
            so many of an update's groups are begun ahead.
        together: Groups that a worker plays in one batch.
        late: ``"wait"`` for slow groups, or ``"drop"`` them.
        restarts: Number of workers that may die before training ends with an error.
        timeout_s: Time limit of a worker's start, and of each batch of groups.
        start_method: Start method of ``multiprocessing``. As always with ``"spawn"``, a script that
            uses this guards its own start by ``if __name__ == "__main__":``.

    Raises:
        CardError: numbers out of range.
    """

    def __init__(
        self,
        make: Make,
        *,
        workers: int = 1,
        eta: float = 1,
        together: int = 1,
        late: Late = "wait",
        restarts: int = 3,
        timeout_s: float = 600.0,
        start_method: str = "spawn",
    ) -> None:
        if workers < 1 or together < 1 or restarts < 0 or timeout_s <= 0 or eta < 0:
            raise CardError(
                "workers and together must be at least 1, restarts and eta at least 0, timeout_s "
                f"positive; got {workers}, {together}, {restarts}, {eta}, {timeout_s}"
            )
        self.make, self.workers, self.eta = make, workers, eta
        self.late = late
        Waiting(AdmissionControl(1, eta), late)  # refused here, not when training begins
        self.together, self.restarts, self.timeout_s = together, restarts, timeout_s
        self.context = multiprocessing.get_context(start_method)
        self.folder = new_folder()
        self.waiting: Waiting[Group] | None = None
        self.lost = 0
        """Number of workers that died or hung so far."""
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Job, list[Group], float] | Exception] = SimpleQueue()
        self._running: dict[int, Worker] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._lock = threading.Lock()
        self._taken = 0
        self._since = time.perf_counter()
        self._idle = self._busy = 0.0
        self._before = 0

    # --- what the trainer calls -----------------------------------------------------------------
    def start(
        self, recipe: Recipe, batch: int, steps: int, weights: Mapping[str, Tensor], version: int
    ) -> None:
        """Start the workers, after ``steps`` updates of ``batch`` groups."""
        if self._threads:
            raise EngineError("these rollouts belong to a trainer already: make others")
        control = AdmissionControl(batch, self.eta)
        control.recover(steps)
        self.waiting = Waiting(control, self.late)
        self.folder = pick_staging_dir(self.folder, weights)
        publish(self.folder, weights, version)
        rollout = recipe.table.get("rollout", "chains")
        for number in range(self.workers):
            args = (number, rollout)
            thread = threading.Thread(target=self._attend, args=args, daemon=True)
            self._threads.append(thread)
            thread.start()

    def groups(
        self, plan: Callable[[int], list[TaskPlan]], coef: Mapping[str, float]
    ) -> list[Group]:
        """Wait for the groups of this update. Called again before :meth:`updated`, it gives as many
        others.

        Raises:
            EngineError: a worker failed, or too many died.
        """
        waiting = self._started()
        if self._taken:
            waiting.again(self._taken)
        while True:
            self._admit(waiting, plan, coef)
            if waiting.ready and self._results.empty():
                break
            begun = time.perf_counter()
            result = self._results.get()
            self._idle += time.perf_counter() - begun
            if isinstance(result, Exception):
                raise result
            job, groups, seconds = result
            self._busy += seconds
            for ticket, group in zip(job.tickets, groups, strict=True):
                waiting.finish(ticket, group)
        groups = waiting.take().items
        self._taken = len(groups)
        return groups

    def updated(self, weights: Mapping[str, Tensor], version: int) -> dict[str, float]:
        """Publish new weights; workers play with them from the next turn on.

        Returns:
            ``rollouts/dropped``: groups discarded for their age since the last update;
            ``rollouts/workers_lost``: workers that died so far; ``rollouts/trainer_idle``,
            ``rollouts/workers_idle``: shares of the time since the last update spent waiting.
        """
        waiting = self._started()
        waiting.updated()
        publish(self.folder, weights, version)
        self._taken = 0
        now = time.perf_counter()
        passed, self._since = max(now - self._since, 1e-9), now
        metrics = {
            "dropped": float(waiting.dropped - self._before),
            "workers_lost": float(self.lost),
            "trainer_idle": min(self._idle / passed, 1.0),
            # a job counts when it is done, so that one that began earlier may exceed the time
            "workers_idle": max(1 - self._busy / (self.workers * passed), 0.0),
        }
        self._before, self._idle, self._busy = waiting.dropped, 0.0, 0.0
        return {f"rollouts/{name}": value for name, value in metrics.items()}

    def close(self) -> None:
        """End all workers and remove the weights; may be called twice."""
        with self._lock:
            self._closed = True
            for worker in self._running.values():
                worker.process.kill()  # waiting threads are told so
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- parts ----------------------------------------------------------------------------------
    def _started(self) -> Waiting[Group]:
        if self.waiting is None or self._closed:
            raise EngineError("these rollouts are closed, or were given to no trainer")
        return self.waiting

    def _admit(
        self,
        waiting: Waiting[Group],
        plan: Callable[[int], list[TaskPlan]],
        coef: Mapping[str, float],
    ) -> None:
        if not (count := waiting.control.capacity):
            return
        plans = plan(count)
        for at in range(0, count, self.together):
            part = tuple(plans[at : at + self.together])
            self._jobs.put(Job(tuple(waiting.begin() for _ in part), part, dict(coef)))

    def _attend(self, number: int, rollout: Any) -> None:
        """Serve one worker from a thread: hand it jobs, wait for it, replace it when it dies."""
        worker: Worker | None = None
        try:
            while (job := self._jobs.get()) is not None and not self._closed:
                answer = None
                while answer is None:
                    try:
                        if worker is None:
                            worker = self._begin(number, rollout)
                            worker.ready()
                        answer = worker.play(job)
                    except WorkerLostError as lost:
                        self._bury(number, lost)
                        worker = None
                self._results.put((job, *answer))
        except Exception as error:
            if not self._closed:
                self._results.put(error)
        finally:
            with self._lock:
                worker = self._running.pop(number, None)
            if worker is not None:
                worker.stop()

    def _begin(self, number: int, rollout: Any) -> Worker:
        worker = Worker(number, self.context, self.make, rollout, self.folder, self.timeout_s)
        with self._lock:
            if self._closed:
                raise EngineError("these rollouts are closed")
            worker.start()
            self._running[number] = worker
        return worker

    def _bury(self, number: int, lost: WorkerLostError) -> None:
        """Remove a dead worker; ``EngineError`` if too many have died."""
        with self._lock:
            self.lost += 1
            if self._closed or self.lost > self.restarts:
                raise EngineError(
                    f"{lost}. {self.lost} workers were lost, {self.restarts} may be (restarts=)"
                ) from lost
            worker = self._running.pop(number)
        worker.stop()
