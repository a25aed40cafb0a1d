"""Checks of the names in ``Host`` and ``Origin``, against DNS rebinding and scripts
of other sites.

A page of any site can make a browser send requests to servers on this machine. It cannot choose the
``Host`` and ``Origin`` headers, so these tell whether a request is meant for this server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from .limits import HttpError, Scope, refuse

_KEPT = 256


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
