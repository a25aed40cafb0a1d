"""Requests that the server refuses, and its errors: reading bodies, bearer tokens, JSON errors."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..text import QUERY_CHARACTERS

Scope = dict[str, Any]
JSON_TYPE = (b"content-type", b"application/json")
_LONGEST = 600
"""Longest sentence of an error, in characters."""


class Limits(NamedTuple):
    """Limits of one request."""

    body_bytes: int = 1 << 20
    queries: int = 512
    k: int = 1000
    results: int = 1 << 14
    """Maximum passages in one answer: queries times k."""
    response_bytes: int = 64 << 20
    query_characters: int = QUERY_CHARACTERS
    """Longest query, URL or title."""


class HttpError(Exception):
    """An answer other than success: status, a short kind for programs, a sentence for people."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        if len(detail) > _LONGEST:  # it may repeat what the client wrote
            detail = f"{detail[:_LONGEST]} …"
        self.status, self.kind, self.detail, self.extra = status, kind, detail, extra
        self.headers = tuple(headers)

    @property
    def body(self) -> bytes:
        """JSON: ``error`` (the kind), ``detail`` (the sentence) and whatever else helps."""
        return json.dumps({"error": self.kind, "detail": self.detail, **self.extra}).encode()


def unauthorized() -> HttpError:
    """Return the response to a request without the right token."""
    return HttpError(
        401,
        "unauthorized",
        "this server needs the header 'Authorization: Bearer TOKEN' with its token",
        ((b"www-authenticate", b"Bearer"),),
    )


def answer_too_large(most: int) -> HttpError:
    """Return the response to a request whose answer would be larger than ``most`` bytes."""
    return HttpError(
        413, "answer_too_large",
        f"the answer would be larger than {most:,} bytes; ask for fewer queries, a smaller k or "
        "fewer pages at a time",
    )  # fmt: skip


def check_token(headers: Iterable[tuple[bytes, bytes]], token: bytes | None) -> None:
    """Raises a 401 unless no token is set or the request carries it (compared in constant time)."""
    if token is None:
        return
    for name, value in headers:
        if name == b"authorization":
            scheme, _, given = value.partition(b" ")
            if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token):
                return
    raise unauthorized()


async def read_body(scope: Scope, receive: Any, most: int) -> bytes:
    """The whole request body; a 413 as soon as it is known to be larger than ``most`` bytes."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > most:
                raise _too_large(most)
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise HttpError(400, "disconnected", "the client went away before its request was read")
    if len(body) > most:
        raise _too_large(most)
    return body


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


def _too_large(most: int) -> HttpError:
    return HttpError(
        413, "body_too_large", f"the request body is larger than {most:,} bytes; send fewer queries"
    )
