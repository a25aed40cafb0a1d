"""JSON over HTTP to a model server: one pool of connections, a time limit per call, bounded tries.

All traffic runs on one event loop in a thread of its own, so that blocking callers, and callers
within any event loop, share the pool.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import EngineError, MissingExtraError
from ..seeding import derive, unit
from ..types import Failure
from ..utils.event_loop import LoopClient
from ..utils.http_limits import ACCEPTED, TooLong, on_this_machine, read_body

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that may pass; other errors are the request's fault and are not tried again."""
_LONGEST_WAIT_S = 30.0


class Reply(NamedTuple):
    """Reply of a server: an HTTP status below 500 and a JSON object (``None``: no body)."""

    status: int
    body: dict[str, Any] | None


class Wire(LoopClient):
    """A model server at ``base_url``. The key is read from the environment at each call, if set.

    ``timeout_s`` bounds one try, whole answer included; ``tries`` bounds their number; before each
    further try it waits ``backoff_s`` · 2ⁿ (half to one and a half of it, fixed by the request's
    key, so that crowds spread) or as long as the server's Retry-After says, at most 30 s.
    ``max_bytes`` bounds an answer, decompressed. Proxies of the environment are not asked for a
    server on this machine.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key_env: str,
        timeout_s: float,
        tries: int,
        backoff_s: float,
        connections: int,
        max_bytes: int = 64 << 20,
    ) -> None:
        super().__init__("searchgym-wire")
        if not base_url.startswith(("http://", "https://")):
            raise EngineError(f"base_url is like http://127.0.0.1:8000/v1, got {base_url!r}")
        if min(tries, connections, max_bytes) < 1 or timeout_s <= 0 or backoff_s < 0:
            raise EngineError(
                "tries, connections and max_bytes must be ≥ 1, timeout_s > 0, backoff_s ≥ 0, got "
                f"{tries}, {connections}, {max_bytes}, {timeout_s}, {backoff_s}"
            )
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("a model server's client", "remote") from error
        self._httpx = httpx
        self.base_url = base_url.rstrip("/")
        self.key_env, self.timeout_s, self.tries = key_env, timeout_s, tries
        self.backoff_s, self.connections, self.max_bytes = backoff_s, connections, max_bytes

    # --- the loop -----------------------------------------------------------------------------
    def _connect(self) -> None:
        limits = self._httpx.Limits(
            max_connections=self.connections, max_keepalive_connections=self.connections
        )
        # no timeout of its own: ours is per try
        self._client: Any = self._httpx.AsyncClient(
            limits=limits, timeout=None, trust_env=not on_this_machine(self.base_url)
        )
        self._free = asyncio.Semaphore(self.connections)

    async def _disconnect(self) -> None:
        await self._client.aclose()

    # --- one call -----------------------------------------------------------------------------
    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        key: int = 0,
        stop: Callable[[], Failure | None] = lambda: None,
    ) -> Reply | Failure:
        """``stop`` is asked when a connection is free, before each try: a ``Failure`` is the answer
        and nothing is sent."""
        return await self._ask("POST", path, body, key, stop)

    async def get(self, path: str) -> Reply | Failure:
        return await self._ask("GET", path, None, 0)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        key: int,
        stop: Callable[[], Failure | None] = lambda: None,
    ) -> Reply | Failure:
        self._settle()
        reply: Reply | Failure = Failure("unavailable", "never asked")
        for attempt in range(self.tries):
            async with self._free:  # waiting for a free connection is not the server's time
                if (stopped := stop()) is not None:
                    return stopped
                reply, after = await self._once(method, path, body)
            if isinstance(reply, Reply) or not reply.retryable or attempt + 1 == self.tries:
                break
            backoff = self.backoff_s * 2**attempt * (0.5 + unit(derive(key, "retry", attempt)))
            await asyncio.sleep(min(after if after is not None else backoff, _LONGEST_WAIT_S))
        if isinstance(reply, Failure) and self.tries > 1 and reply.retryable:
            return reply._replace(message=f"{reply.message} (tried {self.tries} times)")
        return reply

    async def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[Reply | Failure, float | None]:
        """The outcome, and how long the server asks to wait."""
        url, httpx = self.base_url + path, self._httpx
        secret = os.environ.get(self.key_env, "")
        headers = {**ACCEPTED, **({"Authorization": f"Bearer {secret}"} if secret else {})}
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                self._client.stream(method, url, json=body, headers=headers) as got,
            ):
                content = await read_body(got, self.max_bytes)
        except TimeoutError:
            return Failure("timeout", f"{url} gave no answer in {self.timeout_s:g} s"), None
        except TooLong:
            text = f"{url} sent more than {self.max_bytes:,} bytes: ask for fewer tokens"
            return Failure("bad_response", text, False), None
        except (httpx.HTTPError, OSError) as error:
            return Failure("unavailable", f"{url}: {type(error).__name__}: {error}"), None
        if got.status_code in _AGAIN or got.status_code >= 500:
            text = f"{url} said {got.status_code}: {_short(content, secret)}"
            return Failure("unavailable", text), _seconds(got.headers.get("retry-after"))
        if got.status_code in (401, 403):
            raise EngineError(
                f"{url} refused the key ({got.status_code}): put a valid one into the environment "
                f"variable {self.key_env}" + ("" if secret else ", which is not set")
            )
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            data = None
        if got.status_code < 400 and not isinstance(data, dict):
            text = f"{url} sent no JSON object: {_short(content, secret)}"
            return Failure("bad_response", text), None
        return Reply(got.status_code, data if isinstance(data, dict) else None), None


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None  # a date: our own backoff does


def _short(said: bytes, secret: str) -> str:
    text = said.decode("utf-8", "replace")
    text = text.replace(secret, "***") if secret else text
    return repr(text[:200])
