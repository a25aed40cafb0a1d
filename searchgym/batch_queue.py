"""Who waits for what: the queue behind ``SearchBatcher``, which adds threads and a lock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from .errors import EngineError
from .types import Failure

UNSET: Any = object()
"""Stands for an answer that has not come."""


class QueuedGroup:
    """One caller's requests, answered together. ``wake`` runs once, in the caller's world."""

    __slots__ = ("answers", "done", "entries", "error", "event", "future", "loop", "missing")

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop | None) -> None:
        self.answers: list[Any] = [UNSET] * size
        self.missing = size
        self.entries: list[Entry] = []
        self.error: Exception | None = None
        self.done = False
        self.loop = loop
        self.future = loop.create_future() if loop else None
        self.event = None if loop else threading.Event()

    def finish(self, answer: Any) -> None:
        """The same answer to everything."""
        self.answers = [answer] * len(self.answers)
        self.done = True

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()
        elif self.future is not None and not self.future.done():
            self.future.set_result(None)

    def result(self) -> list[Any]:
        """The answers, or the error of a crashed call."""
        if self.error is not None:
            raise self.error
        return self.answers


class Entry:
    """One question to the service and who waits for its answer."""

    __slots__ = ("born", "key", "live", "request", "started", "waiters")

    def __init__(self, request: Any, key: bytes | None, born: float) -> None:
        self.request, self.key, self.born = request, key, born
        self.waiters: list[tuple[QueuedGroup, int]] = []
        self.live = 0
        self.started = False


class RequestQueue:
    """Requests that wait for a call, equal ones as one entry, and groups that wait for room.

    ``most``: entries that may wait. ``grown(before, after)`` is told of every growth. The methods
    that answer return the groups that are now complete, for the owner to wake without its lock.
    """

    def __init__(self, most: int, grown: Callable[[int, int], None]) -> None:
        self.most, self._grown = most, grown
        self._waiting: OrderedDict[int, Entry] = OrderedDict()
        self._held_back: deque[tuple[QueuedGroup, Sequence[Any], Sequence[bytes | None]]] = deque()
        self._by_key: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, for a call or for room."""
        return not self._waiting and not self._held_back

    @property
    def oldest(self) -> float:
        """When the first entry came (monotonic seconds)."""
        return next(iter(self._waiting.values())).born

    def add(
        self,
        group: QueuedGroup,
        requests: Sequence[Any],
        keys: Sequence[bytes | None],
        *,
        hold_back: bool,
    ) -> bool:
        """Take a group in, or hold it back until there is room; False if neither."""
        if not self._held_back and self._has_room(len(requests)):
            self._enter(group, requests, keys)
        elif hold_back:
            self._held_back.append((group, requests, keys))
        else:
            return False
        return True

    def take(self, most: int) -> list[Entry]:
        """The oldest entries; a call for them begins now."""
        size = min(most, len(self._waiting))
        batch = [self._waiting.popitem(last=False)[1] for _ in range(size)]
        for entry in batch:
            entry.started = True
        self._admit()
        return batch

    def answer(self, entry: Entry, answer: Any) -> list[QueuedGroup]:
        """Give an answer to everybody who still waits for a started entry."""
        self._forget(entry)
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

    def crash(self, entry: Entry, what: str, error: BaseException) -> list[QueuedGroup]:
        """Everybody in this call gets the error, whatever else he still waits for."""
        self._forget(entry)
        finished = []
        for group, _ in entry.waiters:
            if not group.done:
                group.error = EngineError(f"{what} failed: {error!r}")
                group.error.__cause__ = error
                self.leave(group)
                finished.append(group)
        return finished

    def leave(self, group: QueuedGroup) -> None:
        """A group gives up; questions nobody waits for any more are not asked."""
        group.done = True
        for entry in group.entries:
            entry.live -= 1
            if not entry.live and not entry.started and id(entry) in self._waiting:
                del self._waiting[id(entry)]
                self._forget(entry)
        self._admit()

    def expire(self, group: QueuedGroup, late: Failure) -> None:
        """A group leaves with what it has; the rest is ``late``."""
        group.answers = [late if a is UNSET else a for a in group.answers]
        self.leave(group)

    def drop(self, gone: Failure) -> list[QueuedGroup]:
        """Answer everything that waits with a failure."""
        finished: list[QueuedGroup] = []
        for entry in list(self._waiting.values()):
            finished += self.answer(entry, gone)
        self._waiting.clear()
        for group, _, _ in self._held_back:
            if not group.done:
                group.finish(gone)
                finished.append(group)
        self._held_back.clear()
        return finished

    def _has_room(self, size: int) -> bool:
        # A batch larger than the whole queue enters when the queue is empty: else it never would.
        return not self._waiting or len(self._waiting) + size <= self.most

    def _enter(
        self, group: QueuedGroup, requests: Sequence[Any], keys: Sequence[bytes | None]
    ) -> None:
        before, now = len(self._waiting), time.monotonic()
        for i, (request, key) in enumerate(zip(requests, keys, strict=True)):
            entry = None if key is None else self._by_key.get(key)
            if entry is None:
                entry = Entry(request, key, now)
                self._waiting[id(entry)] = entry
                if key is not None:
                    self._by_key[key] = entry
            entry.waiters.append((group, i))
            entry.live += 1
            group.entries.append(entry)
        if len(self._waiting) > before:
            self._grown(before, len(self._waiting))

    def _admit(self) -> None:
        """Let held-back groups in, oldest first, as far as there is room."""
        while self._held_back:
            group, requests, keys = self._held_back[0]
            if not group.done:
                if not self._has_room(len(requests)):
                    return
                self._enter(group, requests, keys)
            self._held_back.popleft()

    def _forget(self, entry: Entry) -> None:
        """Later equal requests start anew."""
        if entry.key is not None and self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]


def wake(groups: Sequence[QueuedGroup]) -> None:
    """Wake callers: threads directly, coroutines with one message per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[QueuedGroup]] = {}
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


def _wake_all(groups: Sequence[QueuedGroup]) -> None:
    for group in groups:
        group.wake()
