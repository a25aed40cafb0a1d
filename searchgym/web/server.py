"""One server for all pages and routes: uvicorn with bounded connections, and pages on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import select
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError, SearchGymError
from .middleware import HostCheck

if TYPE_CHECKING:
    from starlette.applications import Starlette

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
KEEP_ALIVE_S = 75
MOST_QUERY_BYTES = 4096
"""Longest query string of a page; a filter of every field is shorter."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_BACKLOG = 2048
_SETTLE_S = 0.2
"""Time in which requests that were sent before the end arrive."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Address of a server, and the bounds of its connections."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0: any free port, which the server names."""
    max_connections: int | None = None
    """Connections of each process; None: 4096, or as many as its files allow."""
    read_s: float = 20.0
    """Seconds in which a request's head must have arrived, and likewise its body."""
    grace_s: float = 30.0
    """Seconds that a shutdown waits for requests that were accepted."""


def is_loopback(host: str) -> bool:
    """Return True if an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def bind(address: Address, *, shared: bool = False) -> socket.socket:
    """A socket that listens on the address: early clients wait until it is answered.

    Args:
        address: Where to listen.
        shared: One of several processes' sockets, which does not listen yet, as the system hands
            connections to every one that does.

    Raises:
        SearchGymError: the address cannot be had.
    """
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        raise SearchGymError("several workers need a system with SO_REUSEPORT; use --workers 1")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((address.host, address.port))
        if not shared:
            made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        raise SearchGymError(
            f"cannot serve on {address.host}:{address.port}: {error.strerror}; choose another "
            + ("--host (an address of this machine)" if elsewhere else "--port (0: any free one)")
        ) from error
    return made


def make_server(
    app: Any, address: Address, bound: socket.socket, announce: Callable[[int], None], *,
    lifespan: bool = True, websockets: bool = False, extra: str = "serve",
) -> Any:  # fmt: skip
    """A uvicorn server of ``app`` whose connections are bounded; ``run([bound])`` answers until
    SIGTERM or SIGINT or until ``should_exit`` is set, then finishes what was accepted.

    ``announce`` is told the port once requests are answered.
    """
    try:
        import uvicorn

        from .connections import BoundedProtocol, Connections, most_connections
    except ImportError as error:
        raise MissingExtraError("the server (uvicorn, httptools)", extra) from error

    pool = Connections(most_connections(address.max_connections), address.read_s)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                self.watch = asyncio.create_task(pool.watch())
                announce(bound.getsockname()[1])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # What clients have sent is accepted, though uvicorn has not seen it yet: connections
            # wait in the socket's queue, and requests in the system's buffers.
            pool.closing = True
            await _drained(bound)
            for server in self.servers:
                server.close()
            await asyncio.sleep(_SETTLE_S)
            await super().shutdown(sockets)
            self.watch.cancel()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn raises the signal anew after its shutdown, which would turn an orderly end
            # into one by signal.
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            asked = (signal.SIGINT, signal.SIGTERM)
            before = {sig: signal.signal(sig, self.handle_exit) for sig in asked}
            try:
                yield
            finally:
                for sig, handler in before.items():
                    signal.signal(sig, handler)

    config = uvicorn.Config(
        app, loop="auto", http=partial(BoundedProtocol, pool=pool),  # type: ignore[arg-type]
        ws="auto" if websockets else "none", ws_max_size=1 << 20,
        lifespan="on" if lifespan else "off", access_log=False, log_level="warning",
        proxy_headers=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=address.grace_s,  # type: ignore[arg-type]
    )  # fmt: skip
    return Server(config)


async def _drained(listening: socket.socket) -> None:
    """Return once no connection waits to be accepted (after a second at most)."""
    if not hasattr(select, "poll"):  # Windows
        return
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    until = time.monotonic() + 1
    while waiting.poll(0) and time.monotonic() < until:
        await asyncio.sleep(0)


# --- pages for one person on this machine ---------------------------------------------------------
class PageGuard:
    """ASGI: GET and HEAD only, short queries only, and :data:`HEADERS` on every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.datastructures import MutableHeaders
        from starlette.responses import PlainTextResponse

        async def strict(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer: Any = self.app
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            answer = PlainTextResponse("only GET here\n", 405, {"allow": "GET, HEAD"})
        elif scope["type"] == "http" and len(scope["query_string"]) > MOST_QUERY_BYTES:
            answer = PlainTextResponse(f"the query is longer than {MOST_QUERY_BYTES} bytes\n", 414)
        await answer(scope, receive, strict)


def static_files() -> Any:
    """The route of stylesheets and scripts, ``/static/NAME``."""
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    return Mount("/static", StaticFiles(packages=[("searchgym.web", "static")]))


def build_app(routes: Sequence[Any]) -> Starlette:
    """An application of Starlette ``routes``; plain functions as endpoints run in threads.

    Other names than this machine's in ``Host`` are refused, lest a page of the web reaches the
    server under a name of its own (DNS rebinding).
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("web pages (starlette)", "view") from error

    async def broken(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse("an error; the terminal says more\n", 500, HEADERS)

    return Starlette(
        routes=[static_files(), *routes],
        middleware=[Middleware(PageGuard), Middleware(HostCheck, hosts=sorted(LOOPBACK))],
        exception_handlers={Exception: broken},
    )


def serve(
    app: Starlette, *, port: int = 0, browser: bool = False,
    announce: Callable[[str], None] = print, path: str = "",
) -> None:  # fmt: skip
    """Answer on loopback until interrupted; ``announce`` is told the address once it answers.

    ``port`` 0: any free one. ``browser``: open the address there, at ``path``.

    Raises:
        SearchGymError: the port is taken.
    """
    with _page_server(app, port, browser, announce, path) as (server, bound):
        server.run([bound])


@contextlib.contextmanager
def serving(
    app: Starlette, *, browser: bool, announce: Callable[[str], None], path: str = ""
) -> Iterator[None]:
    """Answer on a free port of loopback, in a thread, while the body runs; as :func:`serve`."""
    with _page_server(app, 0, browser, announce, path) as (server, bound):
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(5)


@contextlib.contextmanager
def _page_server(
    app: Any, port: int, browser: bool, announce: Callable[[str], None], path: str
) -> Iterator[tuple[Any, socket.socket]]:
    place = Address(port=port, grace_s=2)

    def announced(port: int) -> None:
        address = f"http://{place.host}:{port}/{path}"
        announce(address)
        if browser:
            webbrowser.open(address)

    with contextlib.closing(bind(place)) as bound:
        yield make_server(app, place, bound, announced, lifespan=False, extra="view"), bound
