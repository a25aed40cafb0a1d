"""Requests with limits: time, size, rate, concurrency, tries. httpx inside, on a loop of its own.

Callers are synchronous (``run``) or asynchronous on any loop (``arun``): both hand coroutines to
one background thread per client and process, so connections are pooled across all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

from ...errors import EngineError, MissingExtraError
from ...objects import is_number
from ...types import Failure
from ...utils.event_loop import LoopClient
from ...utils.http_limits import ACCEPTED, TooLong, on_this_machine, read_body
from .wire import Ask, Response, Trouble

T = TypeVar("T")
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class Client(LoopClient):
    """Sends requests; every outcome is a ``Response`` or a ``Trouble``, nothing is raised.

    Args:
        timeout_s: Timeout of each try, from connecting to the last byte.
        retries: Further tries after a timeout, a broken connection or a status in ``RETRIED``.
        backoff_s: Wait before the first retry, doubled each time; ``Retry-After`` overrides it.
        max_wait_s: Longest wait between tries; a server that asks for more is given up on.
        rate: Requests begun per second; ``None``: unlimited.
        concurrency: Requests under way at a time.
        max_bytes: Limit on a response, after decompression.
        secret: A key that no message may show.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 30.0,
        retries: int = 2,
        backoff_s: float = 0.5,
        max_wait_s: float = 30.0,
        rate: float | None = None,
        concurrency: int = 16,
        max_bytes: int = 8 << 20,
        secret: str = "",
    ) -> None:
        super().__init__("searchgym-remote")
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("the remote engine (httpx)", "remote") from error
        for name, value in (("timeout_s", timeout_s), ("retries", retries),
                            ("backoff_s", backoff_s), ("max_wait_s", max_wait_s), ("rate", rate),
                            ("concurrency", concurrency), ("max_bytes", max_bytes)):  # fmt: skip
            whole = name in ("retries", "concurrency", "max_bytes")
            if not (value is None and name == "rate") and (
                not is_number(value) or (whole and not isinstance(value, int))
            ):
                kind = "whole number" if whole else "finite number"
                raise EngineError(f"{name} must be a {kind}, got {value!r}")
        if not timeout_s > 0 or retries < 0 or backoff_s < 0 or max_wait_s < 0:
            raise EngineError("timeout_s must be positive; retries and waits must not be negative")
        if (rate is not None and not rate > 0) or concurrency < 1 or max_bytes < 1:
            raise EngineError("rate, concurrency and max_bytes must be positive")
        self._httpx = httpx
        self.timeout_s, self.retries, self.backoff_s = timeout_s, retries, backoff_s
        self.max_wait_s, self.rate, self.concurrency = max_wait_s, rate, concurrency
        self.max_bytes = max_bytes
        self._secrets: set[str] = set()
        self.hide(secret)
        self.counts = dict.fromkeys(("requests", "retries", "timeouts", "failures", "bytes"), 0)

    # --- the loop -----------------------------------------------------------------------------
    def run(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines together and wait; results in order."""

        async def together() -> list[T]:
            return list(await asyncio.gather(*work))

        return self.wait(together())

    def _connect(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)
        self._next = 0.0
        self._pools: dict[bool, Any] = {}

    async def _disconnect(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, url: str) -> Any:
        """Connections; proxies of the environment are not asked for what is on this machine."""
        local = on_this_machine(url)
        if local not in self._pools:
            limits = self._httpx.Limits(max_connections=self.concurrency)
            self._pools[local] = self._httpx.AsyncClient(
                timeout=self._httpx.Timeout(self.timeout_s), limits=limits,
                follow_redirects=False, trust_env=not local,
            )  # fmt: skip
        return self._pools[local]

    # --- sending ------------------------------------------------------------------------------
    async def send(self, ask: Ask) -> Response | Trouble:
        """One request with all its tries."""
        attempt = 0
        while True:
            outcome, wait = await self._try(ask)
            attempt += 1
            if isinstance(outcome, Response) or not outcome.failure.retryable:
                return outcome
            wait = self.backoff_s * 2 ** (attempt - 1) if wait is None else wait
            if attempt > self.retries:
                why = f"{attempt} {'try' if attempt == 1 else 'tries'}"
            elif wait > self.max_wait_s:
                why = f"it asks to wait {wait:g} s, the limit is max_wait_s={self.max_wait_s:g}"
            else:
                self.counts["retries"] += 1
                await asyncio.sleep(wait)
                continue
            failure = outcome.failure
            return Trouble(failure._replace(message=f"{failure.message} ({why})"), outcome.status)

    async def _try(self, ask: Ask) -> tuple[Response | Trouble, float | None]:
        """One try, and how long the server asks to wait."""
        where = self._shown(ask.url)
        self._settle()
        async with self._slots:
            await self._turn()
            self.counts["requests"] += 1
            try:
                async with asyncio.timeout(self.timeout_s):
                    status, headers, body = await self._exchange(ask)
            except (TimeoutError, self._httpx.TimeoutException):
                self.counts["timeouts"] += 1
                text = f"{where} did not answer within {self.timeout_s:g} s"
                return self._trouble("timeout", text), None
            except TooLong:
                text = f"{where} sent more than max_bytes={self.max_bytes}"
                return self._trouble("bad_response", text, retryable=False), None
            except (self._httpx.HTTPError, self._httpx.InvalidURL, OSError) as error:
                text = f"{where}: {type(error).__name__}: {self._shown(str(error))}"
                return self._trouble("unavailable", text), None
        if 200 <= status < 300:
            return Response(body, headers), None
        said = self._shown(body[:200].decode("utf-8", "replace"))
        text = f"{where} answered {status}" + (f": {said}" if said.strip() else "")
        if status in RETRIED:
            return self._trouble("unavailable", text, status), retry_after(headers)
        if 300 <= status < 400:
            text = f"{where} answered {status} and points elsewhere; give its new address"
        elif status in (401, 403):
            text += "; check the API key and what it may do"
        return self._trouble("rejected", text, status, retryable=False), None

    async def _exchange(self, ask: Ask) -> tuple[int, dict[str, str], bytes]:
        async with self._pool(ask.url).stream(
            ask.method, ask.url, content=ask.body,
            headers={**ACCEPTED, **ask.headers},
            params=dict(ask.params) or None,
        ) as response:  # fmt: skip
            body = await read_body(response, self.max_bytes)
        self.counts["bytes"] += response.num_bytes_downloaded
        headers = {name.lower(): value for name, value in response.headers.items()}
        return response.status_code, headers, body

    async def _turn(self) -> None:
        """Wait until the rate allows another request."""
        if self.rate is None:
            return
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + 1 / self.rate
        if start > now:
            await asyncio.sleep(start - now)

    def _trouble(
        self, kind: Any, text: str, status: int | None = None, *, retryable: bool = True
    ) -> Trouble:
        self.counts["failures"] += 1
        return Trouble(Failure(kind, text, retryable), status)

    def hide(self, secret: str) -> None:
        """Add a key that no message may show."""
        self._secrets |= {secret, quote(secret, safe=""), quote(secret)} - {""}

    def _shown(self, text: str) -> str:
        for form in self._secrets:
            text = text.replace(form, "***")
        return text


def retry_after(headers: dict[str, str]) -> float | None:
    """Seconds a server asks to wait (a number, or a date relative to its own clock)."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value).timestamp()
        date = headers.get("date")
        now = parsedate_to_datetime(date).timestamp() if date else time.time()
    except (TypeError, ValueError):
        return None
    return max(0.0, until - now)
