"""Asynchronous rollouts: worker processes keep playing while the trainer updates the weights."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from ...errors import CardError, EngineError
from ..recipe import Recipe
from ..slots.records import Group, TaskPlan
from .admission import AdmissionControl
from .waiting import Late, Order, Waiting
from .weights import new_folder, pick_staging_dir, publish
from .worker import Job, Make, Worker, WorkerLostError

if TYPE_CHECKING:
    from torch import Tensor


class AsyncRollouts:
    """Plays a trainer's groups in processes of their own, beside the training.

        with AsyncRollouts(make, workers=2, eta=1) as rollouts:
            trainer = Trainer(
                env, lm, "decoupled_ppo", policy=policy, rollouts=rollouts
            )

    Each group is trained on at most ``eta`` updates after it began (``waiting.py``), usually by
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
        order: With ``"drop"``: train on the finished groups that began first (``"deadline"``), or
            on those that were finished first (``"arrival"``).
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
        order: Order = "deadline",
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
        self.late, self.order = late, order
        Waiting(AdmissionControl(1, eta), late, order)  # refused here, not when training begins
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
        self.waiting = Waiting(control, self.late, self.order)
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
        """Queue as many plans as may start."""
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
