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
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

from .batching import run_batch
from .errors import EngineError
from .types import Failure, Service

Req = TypeVar("Req")
Res = TypeVar("Res")
WhenFull = Literal["wait", "reject"]
_UNSET: Any = object()


class _Entry:
    """One question to the service and who waits for its answer."""

    __slots__ = ("born", "key", "live", "request", "started", "waiters")

    def __init__(self, request: Any, key: bytes | None, born: float) -> None:
        self.request, self.key, self.born = request, key, born
        self.waiters: list[tuple[_Group, int]] = []
        self.live = 0
        self.started = False


class _Group:
    """One caller's requests, answered together. ``wake`` runs once, in the caller's world."""

    __slots__ = ("answers", "done", "entries", "error", "event", "future", "loop", "missing")

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop | None) -> None:
        self.answers: list[Any] = [_UNSET] * size
        self.missing = size
        self.entries: list[_Entry] = []
        self.error: Exception | None = None
        self.done = False
        self.loop = loop
        self.future = loop.create_future() if loop else None
        self.event = None if loop else threading.Event()

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()
        elif self.future is not None and not self.future.done():
            self.future.set_result(None)


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
        self._queue: OrderedDict[int, _Entry] = OrderedDict()
        self._overflow: deque[tuple[_Group, Sequence[Req], list[bytes | None]]] = deque()
        self._by_key: dict[bytes, _Entry] = {}
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
        group = _Group(len(requests), loop)
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
        return _result(group)

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
        group = _Group(len(batch), None)
        assert group.event is not None
        self._submit(group, batch, when_full)
        try:
            if not group.event.wait(self.deadline_s if deadline_s is None else deadline_s):
                self._expire(group)
        except BaseException:  # Ctrl-C while waiting: nobody wants these answers any more
            self._abandon(group)
            raise
        return _result(group)

    def cache_key(self, request: Req, /) -> bytes | None:
        """The service's own."""
        return self.service.cache_key(request)

    @property
    def queued(self) -> int:
        """Requests that wait for a call to begin."""
        return len(self._queue)

    # --- closing ------------------------------------------------------------------------------
    def close(self, *, drain: bool = True) -> None:
        """Stop accepting. ``drain`` answers what is queued; otherwise it fails. Waits for calls
        that run, and may be called again."""
        finished: list[_Group] = []
        with self._lock:
            self._closing = True
            if not drain:
                gone = Failure("unavailable", "the batcher was closed before this was asked")
                for entry in self._queue.values():
                    finished += _fill(entry, gone)
                self._queue.clear()
                for group, requests, _ in self._overflow:
                    group.answers = [gone] * len(requests)
                    group.done = True
                    finished.append(group)
                self._overflow.clear()
                self._by_key = {k: e for k, e in self._by_key.items() if e.started}
            self._ready.notify_all()
        _wake(finished)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    async def aclose(self, *, drain: bool = True) -> None:
        """:meth:`close` without blocking the event loop."""
        await asyncio.to_thread(self.close, drain=drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(drain=exc[0] is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose(drain=exc[0] is None)

    # --- the queue (everything below that says so runs with the lock held) ----------------------
    def _submit(self, group: _Group, requests: Sequence[Req], when_full: WhenFull | None) -> None:
        keys = [self.service.cache_key(request) for request in requests]
        with self._lock:
            if self._closing:
                raise EngineError("the batcher is closed and takes no more requests")
            if not self._threads:
                self._start()
            if not self._overflow and self._has_room(len(requests)):
                self._enqueue(group, requests, keys)
            elif (when_full or self.when_full) == "wait":
                self._overflow.append((group, requests, keys))
            else:
                full = Failure(
                    "rejected", f"{len(self._queue)} requests are waiting already; try again later"
                )
                group.answers = [full] * len(requests)
                group.done = True
        if group.done:
            group.wake()

    def _has_room(self, size: int) -> bool:
        # A batch larger than the whole queue enters when the queue is empty: else it never would.
        return not self._queue or len(self._queue) + size <= self.max_queue

    def _enqueue(
        self, group: _Group, requests: Sequence[Req], keys: Sequence[bytes | None]
    ) -> None:
        """Lock held."""
        before, now = len(self._queue), time.monotonic()
        for i, (request, key) in enumerate(zip(requests, keys, strict=True)):
            entry = None if key is None else self._by_key.get(key)
            if entry is None:
                entry = _Entry(request, key, now)
                self._queue[id(entry)] = entry
                if key is not None:
                    self._by_key[key] = entry
            entry.waiters.append((group, i))
            entry.live += 1
            group.entries.append(entry)
        if len(self._queue) > before and (before == 0 or len(self._queue) >= self.max_batch):
            self._ready.notify()

    def _admit(self) -> None:
        """Lock held: let held-back submitters in, oldest first, as far as there is room."""
        while self._overflow:
            group, requests, keys = self._overflow[0]
            if not group.done:
                if not self._has_room(len(requests)):
                    return
                self._enqueue(group, requests, keys)
            self._overflow.popleft()

    def _leave(self, group: _Group) -> None:
        """Lock held: a group gives up; questions nobody waits for any more are not asked."""
        group.done = True
        for entry in group.entries:
            entry.live -= 1
            if not entry.live and not entry.started and id(entry) in self._queue:
                del self._queue[id(entry)]
                self._forget(entry)
        self._admit()

    def _forget(self, entry: _Entry) -> None:
        """Lock held: later equal requests start anew."""
        if entry.key is not None and self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]

    def _crash(self, entry: _Entry, error: BaseException) -> list[_Group]:
        """Lock held: everybody in this call gets the error, whatever else he still waits for."""
        finished = []
        for group, _ in entry.waiters:
            if not group.done:
                group.error = EngineError(f"{type(self.service).__name__} failed: {error!r}")
                group.error.__cause__ = error
                self._leave(group)
                finished.append(group)
        return finished

    def _abandon(self, group: _Group) -> None:
        with self._lock:
            if not group.done:
                self._leave(group)

    def _expire(self, group: _Group) -> None:
        with self._lock:
            if group.done:
                return
            late = Failure("timeout", "not answered before its deadline")
            group.answers = [late if a is _UNSET else a for a in group.answers]
            self._leave(group)
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
            except BaseException as caught:
                error = caught
            finished: list[_Group] = []
            with self._lock:
                self._running -= 1
                for i, entry in enumerate(batch):
                    self._forget(entry)
                    if error is None:
                        finished += _fill(entry, answers[i])
                    else:
                        finished += self._crash(entry, error)
            _wake(finished)

    def _take(self) -> list[_Entry] | None:
        """The next batch when it is due; None when closed and empty."""
        with self._lock:
            while True:
                if self._queue:
                    wait = self._due() - time.monotonic()
                    if wait <= 0:
                        break
                    self._ready.wait(wait)
                elif self._closing and not self._overflow:
                    self._ready.notify_all()
                    return None
                else:
                    self._ready.wait()
            size = min(self.max_batch, len(self._queue))
            batch = [self._queue.popitem(last=False)[1] for _ in range(size)]
            for entry in batch:
                entry.started = True
            self._running += 1
            self._admit()
            if self._queue:
                self._ready.notify()
            return batch

    def _due(self) -> float:
        """Lock held: when the waiting batch leaves (monotonic seconds)."""
        if self._running == 0 or len(self._queue) >= self.max_batch or self._closing:
            return 0.0
        return next(iter(self._queue.values())).born + self.max_wait_s


def _fill(entry: _Entry, answer: Any) -> list[_Group]:
    """Give an answer to everybody who still waits; returns the groups that are now complete."""
    finished = []
    for group, i in entry.waiters:
        if group.done:
            continue
        group.answers[i] = answer
        group.missing -= 1
        if not group.missing:
            group.done = True
            finished.append(group)
    return finished


def _wake(groups: Sequence[_Group]) -> None:
    """Wake callers: threads directly, coroutines with one message per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Group]] = {}
    for group in groups:
        if group.loop is None:
            group.wake()
        else:
            by_loop.setdefault(group.loop, []).append(group)
    for loop, members in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake_all, members)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has nobody left who could be told
                raise


def _wake_all(groups: Sequence[_Group]) -> None:
    for group in groups:
        group.wake()


def _result(group: _Group) -> list[Any]:
    if group.error is not None:
        raise group.error
    return group.answers
