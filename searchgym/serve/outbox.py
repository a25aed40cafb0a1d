"""Large answers: how many bytes of them may be in memory, and how they are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from .limits import HttpError

LARGE = 256 << 10
"""Answers from this size on are encoded in a thread and sent in pieces."""
_PIECE = 256 << 10


class Large(NamedTuple):
    """An answer that is yet to be encoded."""

    size: int
    """Approximate number of bytes."""
    encode: Callable[[], bytes]


class Outbox:
    """Room for large answers, first come, first served: ``most`` bytes at a time."""

    def __init__(self, most: int, patience_s: float) -> None:
        self.free = self.most = most
        self._patience = patience_s
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for ``size`` bytes (503 if that takes too long); hold it."""
        size = min(size, self.most)
        if self._waiting or size > self.free:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((size, future))
            try:
                await asyncio.wait_for(future, self._patience)
            except (TimeoutError, asyncio.CancelledError) as error:
                if future.done() and not future.cancelled():
                    self._give(size)  # it was granted at the same time
                self._waiting = deque(w for w in self._waiting if w[1] is not future)
                self._next()
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise HttpError(
                    503, "busy", "other large answers are being sent; ask for less, or later",
                    ((b"retry-after", b"1"),),
                ) from None  # fmt: skip
        else:
            self.free -= size
        try:
            yield
        finally:
            self._give(size)

    def _give(self, size: int) -> None:
        self.free += size
        self._next()

    def _next(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, future = self._waiting.popleft()
            if not future.done():
                self.free -= size
                future.set_result(None)


async def send_large(
    send: Any, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Send in pieces, each once the client has taken those before: it is done when all but the
    last is on its way."""
    sized = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": sized})
    view = memoryview(body)
    for at in range(0, len(body), _PIECE):
        piece = bytes(view[at : at + _PIECE])
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
