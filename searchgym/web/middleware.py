"""Checks before every application: names, tokens, the longest body; errors as JSON.

A page of any site can make a browser send requests to servers on this machine. It cannot choose the
``Host`` and ``Origin`` headers, so these tell whether a request is meant for this server.
Starlette's ``TrustedHostMiddleware`` looks at ``Host`` alone, takes the first of two, tells
capitals apart and cuts IPv6 addresses at a colon; :class:`HostCheck` does not.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import SearchGymError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

Scope = dict[str, Any]
JSON_TYPE = (b"content-type", b"application/json")
_LONGEST = 600
"""Longest sentence of an error, in characters."""
_KEPT = 256
"""Host headers that are remembered as good."""


class HttpError(Exception):
    """An answer other than success: status, a short kind for programs, a sentence for people."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Iterable[tuple[bytes, bytes]] = (),
        **extra: Any,
    ) -> None:  # fmt: skip
        super().__init__(detail)
        if len(detail) > _LONGEST:  # it may repeat what the client wrote
            detail = f"{detail[:_LONGEST]} …"
        self.status, self.kind, self.detail, self.extra = status, kind, detail, extra
        self.headers = tuple(headers)

    @property
    def body(self) -> bytes:
        """JSON: ``error`` (the kind), ``detail`` (the sentence) and whatever else helps."""
        return json.dumps({"error": self.kind, "detail": self.detail, **self.extra}).encode()


def check_token(headers: Iterable[tuple[bytes, bytes]], token: bytes | None) -> None:
    """Raises a 401 unless no token is set or the request carries it (compared in constant time)."""
    if token is None:
        return
    for name, value in headers:
        if name == b"authorization":
            scheme, _, given = value.partition(b" ")
            if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token):
                return
    told = "this server needs the header 'Authorization: Bearer TOKEN' with its token"
    raise HttpError(401, "unauthorized", told, ((b"www-authenticate", b"Bearer"),))


async def read_body(scope: Scope, receive: Any, most: int) -> bytes:
    """The whole request body; a 413 as soon as it is known to be larger than ``most`` bytes."""
    told = f"the request body is larger than {most:,} bytes; send fewer queries"
    too_large = HttpError(413, "body_too_large", told)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise too_large
        if not message.get("more_body"):
            break
        if len(parts) == 1:
            for name, value in scope["headers"]:
                if name == b"content-length" and value.isdigit() and int(value) > most:
                    raise too_large
    if message["type"] == "http.disconnect":
        raise HttpError(400, "disconnected", "the client went away before its request was read")
    return b"".join(parts)


async def respond(
    send: Any, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = (JSON_TYPE,),
    kind: str = "http",
) -> None:  # fmt: skip
    """Send a complete response; ``kind`` "websocket": in place of accepting one."""
    of = "websocket.http" if kind == "websocket" else "http"
    sized = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": f"{of}.response.start", "status": status, "headers": sized})
    await send({"type": f"{of}.response.body", "body": body})


async def refuse(send: Any, error: HttpError, kind: str = "http") -> None:
    """Send an error as JSON."""
    await respond(send, error.status, error.body, (JSON_TYPE, *error.headers), kind)


def read_before(body: bytes, receive: Any) -> Any:
    """``receive`` of a request whose body was read: gives the body, then what comes later."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class HostCheck:
    """ASGI: refuses other names than ``hosts`` in Host (421) and Origin (403), and two of either
    (400), of requests and of WebSockets.

    Args:
        app: Asked about the rest.
        hosts: Names without ports; None accepts every Host, and an Origin only if it is the Host:
            of a server that others reach, only its owner knows the names.
    """

    def __init__(
        self, app: Callable[[Scope, Any, Any], Awaitable[None]], hosts: Sequence[str] | None
    ) -> None:
        self.app = app
        self.hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._known: set[bytes] = set()
        """Host headers that were accepted, so that each is taken apart once only."""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            hosts, origins = [], []
            for name, value in scope["headers"]:
                if name == b"host":
                    hosts.append(value)
                elif name == b"origin":
                    origins.append(value)
            if origins or len(hosts) != 1 or hosts[0] not in self._known:
                try:
                    self._check(hosts, origins)
                except HttpError as error:
                    await refuse(send, error, scope["type"])
                    return
        await self.app(scope, receive, send)

    def _check(self, hosts: Sequence[bytes], origins: Sequence[bytes]) -> None:
        if len(hosts) > 1 or len(origins) > 1:
            what = "Host" if len(hosts) > 1 else "Origin"
            raise HttpError(400, "two_headers", f"a request has one {what} header (RFC 9112, 3.2)")
        host, origin = next(iter(hosts), None), next(iter(origins), None)
        name = _name(b"//" + host) if host else ""
        if self.hosts is not None and name not in self.hosts:
            raise HttpError(
                421, "wrong_host",
                f"this server is not called {name!r:.80}; behind a proxy, start it with "
                "--allow-host NAME",
            )  # fmt: skip
        if origin is not None:
            theirs = _name(origin)
            if theirs not in ({name} if self.hosts is None else self.hosts) or not theirs:
                raise HttpError(
                    403, "wrong_origin",
                    f"pages of {origin.decode('latin-1')!r:.80} may not ask this server; if they "
                    "are its own, start it with --allow-host NAME",
                )  # fmt: skip
        if host is not None and len(host) < 256 and len(self._known) < _KEPT:
            self._known.add(host)


def _name(address: bytes) -> str:
    """The host of an address without port, user or final dot; "" if there is none."""
    try:
        parts = urlsplit(address.decode("latin-1").strip())
        _ = parts.port  # a port that is no number
        return "" if parts.username is not None else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


class BodyLimit:
    """ASGI: refuses requests with a body of more than ``most`` bytes (413)."""

    def __init__(self, app: Any, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            try:
                receive = read_before(await read_body(scope, receive, self.most), receive)
            except HttpError as error:
                await refuse(send, error)
                return
        await self.app(scope, receive, send)


def guard(app: Starlette, hosts: Sequence[str] | None, *, most: int = 1 << 20) -> Starlette:
    """The application behind :class:`HostCheck` and :class:`BodyLimit`, its errors as JSON.

    Args:
        app: Application of others, before it answers.
        hosts: Names by which it may be called; None: any.
        most: Bytes of the largest body.
    """
    app.add_middleware(BodyLimit, most=most)
    app.add_middleware(HostCheck, hosts=hosts)
    add_errors(app)
    return app


def add_errors(app: Starlette) -> None:
    """Answer errors in JSON: what is wrong with a request 422, what is wrong here 500 by the names
    of the exceptions alone, whose messages may hold paths of this machine."""
    from starlette.responses import Response

    def told(error: HttpError) -> Response:
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body, error.status, headers, "application/json")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        return told(error)

    async def wrong(request: Request, error: Exception) -> Response:
        return told(HttpError(422, "wrong", " ".join(str(error).split())))

    async def broken(request: Request, error: Exception) -> Response:
        return told(defect(error))

    app.add_exception_handler(HttpError, refused)
    app.add_exception_handler(SearchGymError, wrong)
    app.add_exception_handler(Exception, broken)


def defect(error: Exception) -> HttpError:
    """The answer to a request that an error of ours ended."""
    cause = error.__cause__
    name = type(error).__name__ + (f" ({type(cause).__name__})" if cause else "")
    return HttpError(500, "internal", f"{name}; the server's log says more")
