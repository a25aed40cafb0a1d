"""Connections of one process: how many, how large a request's head may be, how long it may take.

uvicorn's parser (httptools) bounds neither a request's head nor the time in which a request
arrives, and its own limits answer only what the application was already handed.
:class:`BoundedProtocol` bounds both before that; one task (:meth:`Connections.watch`) looks at all
connections once a second, so that no request pays for a timer. Importing this imports uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .middleware import HttpError

LOG = logging.getLogger("searchgym.serve")
MOST_CONNECTIONS = 4096
HEAD_BYTES, URL_BYTES, HEADERS = 64 << 10, 8 << 10, 100
"""Bounds of a request's head, of its address, and of the number of its headers."""
_SPARE_FILES = 64
"""Open files kept free for the engine, its index and connections that are turned away."""
_MOST_LINGERING, _LINGER_S, _LINGER_BYTES = 32, 2.0, 1 << 20
"""Number, time and bytes for which refused requests are still read, so that their senders see why:
to close a socket with unread data resets the connection and may destroy the answer."""
_STALLED_S = 60.0
_LOG_EVERY_S = 10.0


def most_connections(wanted: int | None) -> int:
    """Return how many connections this process may hold: those asked for, or 4096, but fewer than
    the operating system lets it open files (``ulimit -n``)."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted or MOST_CONNECTIONS
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return wanted or MOST_CONNECTIONS
    folder = Path("/proc/self/fd")
    used = len(os.listdir(folder)) if folder.is_dir() else _SPARE_FILES
    room = max(8, soft - used - _SPARE_FILES)
    if wanted is not None and wanted > room:
        LOG.warning("%d connections asked for, %d files may be opened: %d", wanted, soft, room)
    return min(wanted or MOST_CONNECTIONS, room)


class Connections:
    """The open connections of a process, at most ``most``, whose requests arrive in ``read_s``."""

    def __init__(self, most: int, read_s: float) -> None:
        self.most, self.read_s = most, read_s
        self.closing = False
        """True once the server has been told to end: every answer then closes its connection."""
        self.open: set[BoundedProtocol] = set()
        self.lingering: set[BoundedProtocol] = set()
        self.upgraded: set[Any] = set()
        self._counts: dict[str, int] = {}
        self._told: dict[str, float] = {}

    async def watch(self) -> None:
        """Close connections that are too slow, for ever."""
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            for connection in [*self.open, *self.lingering]:
                connection.look(now)

    def note(self, what: str) -> None:
        """Count what was refused, and log it now and then: a flood must not fill the disk."""
        self._counts[what] = self._counts.get(what, 0) + 1
        now = time.monotonic()
        if now - self._told.get(what, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            LOG.warning("%s (%d since the start)", what, self._counts[what])
            self._told[what] = now


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests have a bounded head and arrive in time."""

    def __init__(self, *arguments: Any, pool: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.pool = pool
        self.reading = ""
        """Part that comes next: nothing yet (""), "head" or "body" of a request."""
        self.due: float | None = None
        """Deadline of what is being read (``time.monotonic``)."""
        self.refused = False
        self._why: HttpError | None = None
        self._fed = self._header_bytes = self._swallowed = 0
        self._unsent, self._stalled_since = 0, 0.0

    # --- the life of a connection -----------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in, or say that there is no room."""
        most = self.pool.most
        if len(self.pool.open) + len(self.pool.upgraded) >= most:
            self.transport, self.flow = transport, FlowControl(transport)
            self.pool.note(f"connections turned away: {most} are open (--max-connections)")
            told = f"{most} connections are open; try again later"
            again = ((b"retry-after", b"1"),)
            self.refuse(HttpError(503, "too_many_connections", told, again))
            return
        super().connection_made(transport)
        self.pool.open.add(self)
        self._await()

    def _await(self, seconds: float | None = None) -> None:
        self.due = time.monotonic() + (self.pool.read_s if seconds is None else seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.pool.open.discard(self)
        self.pool.lingering.discard(self)
        self.due = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, at most as much of a head as is allowed."""
        while data and not self.refused:
            room = max(1, HEAD_BYTES - self._fed + 1) if self.reading == "head" else HEAD_BYTES
            piece, data = data[:room], data[room:]
            if self.reading == "head":
                self._fed += len(piece)
            elif self.reading == "body" and self.cycle.response_complete:
                self._swallow(len(piece))  # an answer was given before the request was read
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:  # to WebSockets, where the application has them;
                if self._should_upgrade():  # else it is answered as if it had not asked
                    self.handle_websocket_upgrade()
                    return
            except httptools.HttpParserError:
                self.refuse(self._why or HttpError(400, "bad_request", "this is no HTTP request"))
                self.pool.note("requests refused that are no HTTP, or whose head is too large")
            if self.reading == "head" and self._fed > HEAD_BYTES:
                self.refuse(_head_too_large())
        if self.refused:
            self._swallow(len(data))
        elif self.due is None and self.reading:
            self._await()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to one of WebSockets, which counts among the open ones."""
        self.pool.open.discard(self)
        self.due = None
        super().handle_websocket_upgrade()
        successor: Any = self.transport.get_protocol()
        lost = successor.connection_lost
        self.pool.upgraded.add(successor)

        def forget(exc: Exception | None) -> None:
            self.pool.upgraded.discard(successor)
            lost(exc)

        successor.connection_lost = forget

    def look(self, now: float) -> None:
        """Close the connection if what is awaited of its client is overdue."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent >= self._unsent:
            self._stalled_since = self._stalled_since or now
            if now - self._stalled_since > _STALLED_S:
                self.pool.note("connections closed: the client did not read its answer")
                self.transport.abort()
                return
        else:
            self._stalled_since = 0.0
        self._unsent = unsent
        if self.due is None or now < self.due:
            return
        if self.refused:
            self.transport.abort()
        elif self.flow.read_paused:  # we do not let it send: earlier requests come first
            self._await()
        elif not self.reading:  # silent from the beginning
            self.pool.note("connections closed: no request came")
            self.transport.close()
        else:
            self.pool.note(f"connections closed: the {self.reading} of a request came too slowly")
            late = f"the {self.reading} of the request did not come in {self.pool.read_s:g} s"
            self.refuse(HttpError(408, "too_slow", late))

    def shutdown(self) -> None:
        """End after what has begun: a request that is coming in is awaited, shortly."""
        if self.refused or not self.reading:
            super().shutdown()
            return
        if self.cycle is not None:
            self.cycle.keep_alive = False
        self.due = min(self.due or float("inf"), time.monotonic() + _LINGER_S)

    # --- the parser's callbacks -------------------------------------------------------------------
    def on_message_begin(self) -> None:
        """Begin a request."""
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self.reading, self._fed, self._header_bytes = "head", 0, 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address; too long a one ends the connection (414)."""
        if len(self.url) + len(url) > URL_BYTES:
            told = f"the address is longer than {URL_BYTES} bytes"
            self._why = HttpError(414, "url_too_long", told)
            raise self._why
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; too many, or too large ones together, end the connection (431)."""
        self._header_bytes += len(name) + len(value) + 4
        if len(self.headers) >= HEADERS or self._header_bytes > HEAD_BYTES:
            self._why = _head_too_large()
            raise self._why
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request to the application."""
        self.reading, self.due = "body", None
        super().on_headers_complete()
        if self.pool.closing and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Note that all of a request has come."""
        super().on_message_complete()
        self.reading, self.due, self._swallowed = "", None, 0

    # --- refusing ---------------------------------------------------------------------------------
    def refuse(self, error: HttpError) -> None:
        """Send an error and read a little on before the connection is closed."""
        if self.refused:
            return
        self.refused = True
        self._unset_keepalive_if_required()
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and (self.cycle.response_started or not self.cycle.more_body or self.pipeline):
            self.cycle.keep_alive = False  # an earlier request has its answer first
            self.due = None
            return
        if busy:  # its body came too slowly; nobody is to answer it any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        phrase = HTTPStatus(error.status).phrase.encode()
        lines = [b"HTTP/1.1 %d %b" % (error.status, phrase), b"content-type: application/json"]
        lines += [b"%b: %b" % header for header in error.headers]
        lines += [b"content-length: %d" % len(error.body), b"connection: close", b"", error.body]
        self.transport.write(b"\r\n".join(lines))
        self.pool.open.discard(self)
        if len(self.pool.lingering) >= _MOST_LINGERING or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.pool.lingering.add(self)
        self._await(_LINGER_S)

    def _swallow(self, size: int) -> None:
        self._swallowed += size
        if self._swallowed > _LINGER_BYTES:
            self.transport.abort()


def _head_too_large() -> HttpError:
    told = (
        f"the request's head is larger than {HEAD_BYTES} bytes or has more than {HEADERS} headers"
    )
    return HttpError(431, "head_too_large", told)
