"""Micro-batches for concurrent callers, in which nobody waits for a batch he is not in.

Episodes submit requests one by one, from asyncio or from threads; a few worker threads take what
has gathered and ask the service once. A batch leaves when it is full, when its oldest request has
waited ``max_wait_s``, or at once while the service is idle, so a lone caller never waits for
company that does not come. Equal requests (``cache_key``) share one place in it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

from .batch_queue import Entry, QueuedGroup, RequestQueue, wake
from .batching import run_batch
from .errors import EngineError
from .types import Failure, Service

Req = TypeVar("Req")
Res = TypeVar("Res")
WhenFull = Literal["wait", "reject"]


class SearchBatcher(Generic[Req, Res]):
    """A service in front of a service: gathers the requests of many callers into micro-batches.

    ``max_batch``: most requests per call. ``max_wait_s``: longest time a request waits for company
    while other calls run. ``max_in_flight``: calls that run at the same time, each in a thread of
    its own; 1 for an engine that fills the processor by itself, many for one that waits for a
    network, as the slots are what lets a request overtake a slow batch. ``max_queue``: requests
    that may wait; beyond it ``when_full`` decides: ``"wait"`` holds the submitter back,
    ``"reject"`` answers ``Failure("rejected")`` at once. ``deadline_s``: default deadline.
    ``on_batch(size, seconds)`` is told of every call, in its thread.

    Each item fails alone. If the service itself crashes, everybody in that batch gets an
    ``EngineError`` with the cause, and the next batch is tried anew.
    """

    def __init__(
        self,
        service: Service[Req, Res],
        *,
        max_batch: int = 64,
        max_wait_s: float = 0.003,
        max_queue: int = 4096,
        max_in_flight: int = 4,
        when_full: WhenFull = "wait",
        deadline_s: float | None = None,
        on_batch: Callable[[int, float], None] | None = None,
    ) -> None:
        for name, value in (
            ("max_batch", max_batch), ("max_queue", max_queue), ("max_in_flight", max_in_flight),
        ):  # fmt: skip
            if value < 1:
                raise EngineError(f"{name} must be at least 1, got {value}")
        if max_wait_s < 0:
            raise EngineError(f"max_wait_s must not be negative, got {max_wait_s}")
        self.service = service
        self.needs_task = service.needs_task
        self.fingerprint = service.fingerprint
        self.max_batch, self.max_wait_s = max_batch, max_wait_s
        self.max_queue, self.max_in_flight = max_queue, max_in_flight
        self.when_full, self.deadline_s = when_full, deadline_s
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._queue = RequestQueue(max_queue, self._grown)
        self._running = 0
        self._closing = False
        self._threads: list[threading.Thread] = []

    # --- asking -------------------------------------------------------------------------------
    async def submit(
        self, request: Req, *, deadline_s: float | None = None, when_full: WhenFull | None = None
    ) -> Res | Failure:
        """The answer to one request; see :meth:`submit_many`."""
        answers = await self.submit_many((request,), deadline_s=deadline_s, when_full=when_full)
        return answers[0]

    async def submit_many(
        self,
        requests: Sequence[Req],
        *,
        deadline_s: float | None = None,
        when_full: WhenFull | None = None,
    ) -> list[Res | Failure]:
        """Answers in order. What is unanswered after ``deadline_s`` seconds is a ``Failure``.

        Cancelling the task takes its requests out of the queue; a call that has begun goes on for
        the others in it. Raises ``EngineError`` if the service crashed or the batcher is closed.
        """
        if not requests:
            return []
        loop = asyncio.get_running_loop()
        group = QueuedGroup(len(requests), loop)
        assert group.future is not None
        self._submit(group, requests, when_full)
        limit = self.deadline_s if deadline_s is None else deadline_s
        timer = None if limit is None else loop.call_later(limit, self._expire, group)
        try:
            await group.future
        except asyncio.CancelledError:
            self._abandon(group)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return group.result()

    def submit_sync(
        self, request: Req, *, deadline_s: float | None = None, when_full: WhenFull | None = None
    ) -> Res | Failure:
        """:meth:`submit` for threads."""
        return self.run((request,), deadline_s=deadline_s, when_full=when_full)[0]

    def run(
        self,
        batch: Sequence[Req],
        /,
        *,
        deadline_s: float | None = None,
        when_full: WhenFull | None = None,
    ) -> list[Res | Failure]:
        """:meth:`submit_many` for threads; with it a batcher is itself a service."""
        if not batch:
            return []
        group = QueuedGroup(len(batch), None)
        assert group.event is not None
        self._submit(group, batch, when_full)
        try:
            if not group.event.wait(self.deadline_s if deadline_s is None else deadline_s):
                self._expire(group)
        except BaseException:  # Ctrl-C while waiting: nobody wants these answers any more
            self._abandon(group)
            raise
        return group.result()

    def cache_key(self, request: Req, /) -> bytes | None:
        """The service's own."""
        return self.service.cache_key(request)

    @property
    def queued(self) -> int:
        """Requests that wait for a call to begin."""
        return len(self._queue)

    # --- closing ------------------------------------------------------------------------------
    def close(self, *, drain: bool = True, timeout_s: float | None = None) -> bool:
        """Stop accepting. ``drain`` answers what is queued; otherwise it fails. Waits for calls
        that run, ``timeout_s`` seconds at most; whether they have ended. May be called again."""
        finished: list[QueuedGroup] = []
        with self._lock:
            self._closing = True
            if not drain:
                gone = Failure("unavailable", "the batcher was closed before this was asked")
                finished = self._queue.drop(gone)
            self._ready.notify_all()
        wake(finished)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        others = [t for t in self._threads if t is not threading.current_thread()]
        for thread in others:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in others)

    async def aclose(self, *, drain: bool = True, timeout_s: float | None = None) -> bool:
        """:meth:`close` without blocking the event loop."""
        return await asyncio.to_thread(self.close, drain=drain, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(drain=exc[0] is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose(drain=exc[0] is None)

    # --- the queue ------------------------------------------------------------------------------
    def _submit(
        self, group: QueuedGroup, requests: Sequence[Req], when_full: WhenFull | None
    ) -> None:
        keys = [self.service.cache_key(request) for request in requests]
        with self._lock:
            if self._closing:
                raise EngineError("the batcher is closed and takes no more requests")
            if not self._threads:
                self._start()
            hold_back = (when_full or self.when_full) == "wait"
            if not self._queue.add(group, requests, keys, hold_back=hold_back):
                waiting = f"{len(self._queue)} requests are waiting already; try again later"
                group.finish(Failure("rejected", waiting))
        if group.done:
            group.wake()

    def _grown(self, before: int, after: int) -> None:
        """Lock held: a worker looks when there is something, and again when there is a batch."""
        if before == 0 or after >= self.max_batch:
            self._ready.notify()

    def _abandon(self, group: QueuedGroup) -> None:
        with self._lock:
            if not group.done:
                self._queue.leave(group)

    def _expire(self, group: QueuedGroup) -> None:
        with self._lock:
            if group.done:
                return
            self._queue.expire(group, Failure("timeout", "not answered before its deadline"))
        group.wake()

    # --- worker threads -----------------------------------------------------------------------
    def _start(self) -> None:
        for i in range(self.max_in_flight):
            thread = threading.Thread(target=self._work, name=f"search-batcher-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            start = time.perf_counter()
            answers: Sequence[Any] = ()
            error: BaseException | None = None
            try:
                answers = run_batch(self.service, [entry.request for entry in batch])
                if self._on_batch is not None:
                    self._on_batch(len(batch), time.perf_counter() - start)
            except BaseException as caught:  # whatever it is: callers wait, this thread goes on
                error = caught
            finished: list[QueuedGroup] = []
            with self._lock:
                self._running -= 1
                for i, entry in enumerate(batch):
                    if error is None:
                        finished += self._queue.answer(entry, answers[i])
                    else:
                        finished += self._queue.crash(entry, type(self.service).__name__, error)
            wake(finished)

    def _take(self) -> list[Entry] | None:
        """The next batch when it is due; None when closed and empty."""
        with self._lock:
            while True:
                if self._queue:
                    wait = self._due() - time.monotonic()
                    if wait <= 0:
                        break
                    self._ready.wait(wait)
                elif self._closing and self._queue.empty:
                    self._ready.notify_all()
                    return None
                else:
                    self._ready.wait()
            self._running += 1
            batch = self._queue.take(self.max_batch)
            if self._queue:
                self._ready.notify()
            return batch

    def _due(self) -> float:
        """Lock held: when the waiting batch leaves (monotonic seconds)."""
        if self._running == 0 or len(self._queue) >= self.max_batch or self._closing:
            return 0.0
        return self._queue.oldest + self.max_wait_s
