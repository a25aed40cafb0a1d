"""Dynamic micro-batching: concurrent requests share calls of an engine, and no request waits for a
call that it is not part of.

A batch leaves when it is full, when its oldest request has waited ``max_wait_s``, or at once while
the engine is idle, so a lone caller never waits for company that does not come. Equal requests
(``cache_key``) share one place in it. All of it lives on one event loop; calls run in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

from ..batching import run_batch
from ..errors import EngineError
from ..types import Failure, Service

Req = TypeVar("Req")
Res = TypeVar("Res")


class _Entry:
    """One question to the service, and how many callers wait for its answer."""

    __slots__ = ("answer", "born", "callers", "key", "request")

    def __init__(self, request: Any, key: bytes | None, answer: asyncio.Future[Any]) -> None:
        self.request, self.key, self.answer = request, key, answer
        self.born = time.monotonic()
        self.callers = 0
        # an error that nobody is left to hear of is no error of the event loop's
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())


class Batcher(Generic[Req, Res]):
    """Gathers the requests of many callers on one event loop into calls of a service.

    Args:
        max_batch: Most requests per call.
        max_wait_s: Longest time a request waits for company while other calls run.
        max_in_flight: Calls that run at the same time, each in a thread of its own; 1 for an engine
            that fills the processor by itself, many for one that waits for a network, as the slots
            are what lets a request overtake a slow batch.
        max_queue: Requests that may wait; beyond it the answer is ``Failure("rejected")``.
        deadline_s: What is unanswered after so many seconds is ``Failure("timeout")``.
        on_batch: Told the size and seconds of every call, in its thread.

    Each item fails alone. If the service itself crashes, every request in that call gets an
    ``EngineError`` with the cause, and the next call is tried anew.
    """

    def __init__(
        self,
        service: Service[Req, Res],
        *,
        max_batch: int = 64,
        max_wait_s: float = 0.003,
        max_queue: int = 4096,
        max_in_flight: int = 4,
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
        self.max_batch, self.max_wait_s = max_batch, max_wait_s
        self.max_queue, self.max_in_flight, self.deadline_s = max_queue, max_in_flight, deadline_s
        self._on_batch = on_batch
        self._waiting: OrderedDict[int, _Entry] = OrderedDict()
        self._by_key: dict[bytes, _Entry] = {}
        self._running = 0
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._calls: SimpleQueue[tuple[asyncio.AbstractEventLoop, list[_Entry]] | None]
        self._calls = SimpleQueue()
        self._threads = 0

    @property
    def queued(self) -> int:
        """Requests that wait for a call to begin."""
        return len(self._waiting)

    async def submit(self, request: Req) -> Res | Failure:
        """The answer to one request; see :meth:`submit_many`."""
        return (await self.submit_many((request,)))[0]

    async def submit_many(self, requests: Sequence[Req]) -> list[Res | Failure]:
        """Answers in order; what the deadline passes is a ``Failure``.

        Cancelling the task takes its requests out of the queue; a call that has begun goes on for
        the others in it. Raises ``EngineError`` if the service crashed or the batcher is closed.
        """
        if self._closing:
            raise EngineError("the batcher is closed and takes no more requests")
        if not requests:
            return []
        if self._waiting and len(self._waiting) + len(requests) > self.max_queue:
            waiting = f"{len(self._waiting)} requests are waiting already; try again later"
            return [Failure("rejected", waiting)] * len(requests)
        loop = asyncio.get_running_loop()
        entries = [self._enter(request, loop) for request in requests]
        loop.call_soon(self._dispatch)
        try:
            await asyncio.wait(
                {entry.answer for entry in entries},
                timeout=self.deadline_s,
                return_when=asyncio.FIRST_EXCEPTION,
            )
        finally:
            for entry in entries:
                entry.callers -= 1
                if not entry.callers and self._waiting.pop(id(entry), None) is not None:
                    self._forget(entry)  # nobody waits for it any more: it is not asked
        for entry in entries:
            if entry.answer.done() and (error := entry.answer.exception()) is not None:
                raise error
        late = Failure("timeout", "not answered before its deadline")
        return [entry.answer.result() if entry.answer.done() else late for entry in entries]

    async def aclose(self, *, timeout_s: float | None = None) -> bool:
        """Stop accepting and answer what was accepted, within ``timeout_s`` seconds; whether that
        was done. May be called again."""
        self._closing = True
        self._dispatch()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._running or self._waiting:
                    self._idle.clear()
                    await self._idle.wait()
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0
        return not (self._running or self._waiting)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    # --- the queue ------------------------------------------------------------------------------
    def _enter(self, request: Req, loop: asyncio.AbstractEventLoop) -> _Entry:
        key = self.service.cache_key(request)
        entry = None if key is None else self._by_key.get(key)
        if entry is None:
            entry = _Entry(request, key, loop.create_future())
            self._waiting[id(entry)] = entry
            if key is not None:
                self._by_key[key] = entry
        entry.callers += 1
        return entry

    def _forget(self, entry: _Entry) -> None:
        """Forget a request: later equal ones start anew."""
        if entry.key is not None and self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]

    def _dispatch(self) -> None:
        """Begin the calls that are due; look again when the next one will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._waiting and self._running < self.max_in_flight:
            full = len(self._waiting) >= self.max_batch
            wait = next(iter(self._waiting.values())).born + self.max_wait_s - time.monotonic()
            if self._running and not full and not self._closing and wait > 0:
                self._timer = loop.call_later(wait, self._dispatch)
                return
            size = min(self.max_batch, len(self._waiting))
            batch = [self._waiting.popitem(last=False)[1] for _ in range(size)]
            self._running += 1
            if self._threads < min(self._running, self.max_in_flight):
                self._threads += 1
                # daemons: a call that hangs must not keep the process from its end
                threading.Thread(target=self._work, daemon=True, name="search-batcher").start()
            self._calls.put((loop, batch))

    def _ended(self, batch: list[_Entry], answers: Sequence[Any], error: Exception | None) -> None:
        self._running -= 1
        for i, entry in enumerate(batch):
            self._forget(entry)
            if error is None:
                entry.answer.set_result(answers[i])
            else:
                entry.answer.set_exception(error)
        self._dispatch()
        if not (self._running or self._waiting):
            self._idle.set()

    # --- threads ----------------------------------------------------------------------------------
    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            loop, batch = call
            start = time.perf_counter()
            answers: Sequence[Any] = ()
            failed: EngineError | None = None
            try:
                answers = run_batch(self.service, [entry.request for entry in batch])
                if self._on_batch is not None:
                    self._on_batch(len(batch), time.perf_counter() - start)
            except BaseException as error:  # whatever it is: callers wait, this thread goes on
                failed = EngineError(f"{type(self.service).__name__} failed: {error!r}")
                failed.__cause__ = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(self._ended, batch, answers, failed)
