"""A server for one person on this machine: loopback only, GET only, bounded, strict headers."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .middleware import HostCheck
from .server import bind, make_server
from .settings import LOOPBACK, Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

MOST_QUERY_BYTES = 4096
"""Longest query string; a filter of every field is shorter."""
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


class Guard:
    """ASGI: GET and HEAD only, short queries only, and :data:`HEADERS` on every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from starlette.datastructures import MutableHeaders
        from starlette.responses import PlainTextResponse

        async def strict(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["method"] not in ("GET", "HEAD"):
            answer: Any = PlainTextResponse("only GET here\n", 405, {"allow": "GET, HEAD"})
        elif len(scope["query_string"]) > MOST_QUERY_BYTES:
            answer = PlainTextResponse(f"the query is longer than {MOST_QUERY_BYTES} bytes\n", 414)
        else:
            answer = self.app
        await answer(scope, receive, strict)


def build_app(routes: Sequence[Any], packages: Sequence[str] = ()) -> Starlette:
    """An application of Starlette ``routes``; plain functions as endpoints run in threads.

    ``/static/NAME/…`` serves the ``static`` folders of ``searchgym.web`` and of ``packages``
    (``searchgym.viewer`` as ``viewer``). Other names than this machine's in ``Host`` are refused,
    lest a page of the web reaches the server under a name of its own (DNS rebinding).
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse
        from starlette.routing import Mount
        from starlette.staticfiles import StaticFiles
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("web pages (starlette)", "view") from error
    static = [
        Mount(f"/static/{name.rpartition('.')[2]}", StaticFiles(packages=[(name, "static")]))
        for name in ("searchgym.web", *packages)
    ]

    async def broken(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse("an error; the terminal says more\n", 500, HEADERS)

    return Starlette(
        routes=[*static, *routes],
        middleware=[Middleware(Guard), Middleware(HostCheck, hosts=sorted(LOOPBACK))],
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
    with contextlib.closing(bind(Settings(port=port))) as bound:
        _server(app, bound, browser, announce, path).run([bound])


@contextlib.contextmanager
def serving(
    app: Starlette, *, browser: bool, announce: Callable[[str], None], path: str = ""
) -> Iterator[None]:
    """Answer on a free port of loopback, in a thread, while the body runs; as :func:`serve`."""
    with contextlib.closing(bind(Settings(port=0))) as bound:
        server = _server(app, bound, browser, announce, path)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(5)


def _server(
    app: Any, bound: socket.socket, browser: bool, announce: Callable[[str], None], path: str
) -> Any:
    settings = Settings(grace_s=2)

    def announced(port: int) -> None:
        address = f"http://{settings.host}:{port}/{path}"
        announce(address)
        if browser:
            webbrowser.open(address)

    return make_server(app, settings, bound, announced, lifespan=False, extra="view")
