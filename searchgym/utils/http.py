"""The one HTTP client: limits of time, size, rate and concurrency, and one policy of retries.

Model servers, remote engines and page readers all send through :class:`Client`; whoever meets an
error of another library's client asks :func:`may_pass`. Callers are synchronous (``run``) or
asynchronous on any loop (``arun``): both hand coroutines to one background thread per client and
process, so connections are pooled across all of them. httpx is imported with the first client."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from ..errors import EngineError, MissingExtraError
from ..seeding import derive, unit
from ..types import Failure

Answer = TypeVar("Answer")


async def all_of(work: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Run them side by side; the first that raises ends the others, too."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:  # cancelling, too: nobody waits for the rest any more
        for task in tasks:
            task.cancel()
        raise


class BackgroundLoop:
    """An event loop in a thread of its own, for clients whose callers block or have another loop.

    Starts when first used; ends with ``close``, or when this object is no longer referenced. After
    ``fork`` the child starts a loop of its own, for threads are not inherited. What must live on
    the loop is made by ``_connect``, anew after each start: every coroutine of its own calls
    ``_settle`` before it uses that.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread
        self._ended: weakref.finalize[Any, Any] | None = None

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end, blocking the calling thread; an interrupt cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:  # what nobody waits for must not go on
            future.cancel()
            raise

    async def arun(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end without blocking the caller's event loop; cancelling cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def close(self) -> None:
        """Cancel what is under way (its callers get ``CancelledError``), close connections and end
        the thread; a later call starts anew. In a forked child there is nothing to end."""
        with self._guard:
            loop, self._loop = self._loop, None
            if loop is None or self._pid != os.getpid():
                return
            asyncio.run_coroutine_threadsafe(self._wind_up(), loop).result()
            if self._ended is not None:
                self._ended()
            self._thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None or self._pid != os.getpid():
                loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(loop,), daemon=True, name=self._name
                )
                self._thread.start()
                self._loop = loop
                self._ended = weakref.finalize(self, _stop, loop, os.getpid())
                self._ended.atexit = False  # a daemon: it ends with the process
            return self._loop

    def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        if self._home is not loop:
            self._home = loop
            self._connect()

    async def _wind_up(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._settle()
        await self._disconnect()

    def _connect(self) -> None:
        """Make what lives on the running loop."""

    async def _disconnect(self) -> None:
        """Close it, on the same loop."""


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


_LATER = frozenset({408, 409, 425, 429})
_NEVER = frozenset({501, 505})


class HttpRequest(NamedTuple):
    """One HTTP request."""

    method: str
    url: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    params: Mapping[str, str] = {}
    """Query string; kept apart from ``url`` because it may hold a key, which no message shows."""


class HttpResponse(NamedTuple):
    """A successful response (status 2xx)."""

    body: bytes
    headers: Mapping[str, str]


class HttpFailure(NamedTuple):
    """Reason for a missing response; ``status`` is the server's, or ``None`` if it gave none."""

    failure: Failure
    status: int | None = None
    body: bytes = b""
    """The body that came with the status."""


class TooLong(Exception):
    """An answer is larger than allowed."""


def may_pass(status: int) -> bool:
    """Return True if a status says "later", not "never": the same request may then succeed.

    These are the statuses of servers that are busy, start, or lost a race (408, 409, 425, 429), and
    all errors of servers but "not implemented" (501, 505).
    """
    return status in _LATER or (status >= 500 and status not in _NEVER)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks to wait (a number, or a date relative to its own clock)."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value).timestamp()
        date = headers.get("date")
        now = parsedate_to_datetime(date).timestamp() if date else time.time()
    except (TypeError, ValueError):
        return None
    return max(0.0, until - now)


class Client(BackgroundLoop):
    """Sends requests; each outcome is an ``HttpResponse`` or an ``HttpFailure``, nothing is raised.

    Args:
        timeout_s: Timeout of each try, from connecting to the last byte.
        retries: Further tries after a timeout, a broken connection or a status that
            :func:`may_pass`.
        backoff_s: Wait before the first retry, doubled each time. Half to one and a half of it is
            waited, fixed by request and key, so that crowds spread; ``Retry-After`` overrides it.
        max_wait_s: Longest wait between tries; a server that asks for more is given up on.
        rate: Requests begun per second; ``None``: unlimited.
        concurrency: Requests under way at a time.
        max_bytes: Limit on a response, after decompression.
        secret: A key that no message may show.
        user: Name of what sends, for the error if httpx is not installed.
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
        user: str = "the remote engine (httpx)",
    ) -> None:
        super().__init__("searchgym-http")
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError(user, "remote") from error
        for name, value in (("timeout_s", timeout_s), ("retries", retries),
                            ("backoff_s", backoff_s), ("max_wait_s", max_wait_s), ("rate", rate),
                            ("concurrency", concurrency), ("max_bytes", max_bytes)):  # fmt: skip
            whole = name in ("retries", "concurrency", "max_bytes")
            number = isinstance(value, int if whole else (int, float)) and value is not True
            if not (value is None and name == "rate") and not (number and math.isfinite(value)):  # type: ignore[arg-type]
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
    def run(self, work: Sequence[Coroutine[Any, Any, Answer]]) -> list[Answer]:
        """Run coroutines together and wait; results in order."""

        async def together() -> list[Answer]:
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
        local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        if local not in self._pools:
            limits = self._httpx.Limits(
                max_connections=self.concurrency, max_keepalive_connections=self.concurrency
            )
            self._pools[local] = self._httpx.AsyncClient(
                timeout=None, limits=limits, follow_redirects=False, trust_env=not local
            )
        return self._pools[local]

    # --- sending ------------------------------------------------------------------------------
    async def send(
        self,
        request: HttpRequest,
        *,
        key: int = 0,
        stop: Callable[[], Failure | None] = lambda: None,
        check: Callable[[bytes], object] = bytes,
    ) -> HttpResponse | HttpFailure:
        """One request with all its tries.

        Args:
            request: The request.
            key: Random key of the waits between tries.
            stop: Asked before each try, once it has a connection: a ``Failure`` is the outcome, and
                nothing is sent.
            check: Raises ``ValueError`` for a body that is broken; such a request is tried again.
        """
        attempt = 0
        while True:
            outcome, wait = await self._try(request, stop, check)
            attempt += 1
            if isinstance(outcome, HttpResponse) or not outcome.failure.retryable:
                return outcome
            if wait is None:
                crowd = zlib.crc32(repr(request).encode("utf-8", "replace"))
                spread = 0.5 + unit(derive(key, "retry", attempt, crowd))
                wait = min(self.backoff_s * 2 ** (attempt - 1) * spread, self.max_wait_s)
            if attempt > self.retries:
                why = f"{attempt} {'try' if attempt == 1 else 'tries'}"
            elif wait > self.max_wait_s:
                why = f"it asks to wait {wait:g} s, the limit is max_wait_s={self.max_wait_s:g}"
            else:
                self.counts["retries"] += 1
                await asyncio.sleep(wait)
                continue
            message = f"{outcome.failure.message} ({why})"
            return outcome._replace(failure=outcome.failure._replace(message=message))

    async def _try(
        self,
        request: HttpRequest,
        stop: Callable[[], Failure | None],
        check: Callable[[bytes], object],
    ) -> tuple[HttpResponse | HttpFailure, float | None]:
        where = self._shown(request.url)
        self._settle()
        async with self._slots:  # waiting for a free connection is not the server's time
            await self._turn()
            if (stopped := stop()) is not None:
                return HttpFailure(stopped), None
            self.counts["requests"] += 1
            try:
                async with asyncio.timeout(self.timeout_s):
                    status, headers, body = await self._exchange(request)
            except TimeoutError:
                self.counts["timeouts"] += 1
                text = f"{where} did not answer within {self.timeout_s:g} s"
                return self._failed("timeout", text), None
            except TooLong:
                text = f"{where} sent more than {self.max_bytes:,} bytes (max_bytes)"
                return self._failed("bad_response", text, retryable=False), None
            except (self._httpx.HTTPError, self._httpx.InvalidURL, OSError) as error:
                text = f"{where}: {type(error).__name__}: {self._shown(str(error))}"
                return self._failed("unavailable", text), None
        said = self._shown(body[:200].decode("utf-8", "replace"))
        if 200 <= status < 300:
            try:
                check(body)
            except ValueError as error:
                text = f"{where} sent {self._shown(str(error))}: {said!r}"
                return self._failed("bad_response", text, status, body), None
            return HttpResponse(body, headers), None
        text = f"{where} answered {status}" + (f": {said}" if said.strip() else "")
        if may_pass(status):
            return self._failed("unavailable", text, status, body), retry_after(headers)
        if 300 <= status < 400:
            text = f"{where} answered {status} and points elsewhere; give its new address"
        elif status in (401, 403):
            text += "; check the API key and what it may do"
        return self._failed("rejected", text, status, body, retryable=False), None

    async def _exchange(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        async with self._pool(request.url).stream(
            request.method, request.url, content=request.body,
            headers={"Accept-Encoding": "gzip", **request.headers},
            params=dict(request.params) or None,
        ) as response:  # fmt: skip
            body = await _read(response, self.max_bytes)
        self.counts["bytes"] += response.num_bytes_downloaded
        headers = {name.lower(): value for name, value in response.headers.items()}
        return response.status_code, headers, body

    async def _turn(self) -> None:
        if self.rate is None:
            return
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + 1 / self.rate
        if start > now:
            await asyncio.sleep(start - now)

    def _failed(
        self, kind: Any, text: str, status: int | None = None, body: bytes = b"", *,
        retryable: bool = True,
    ) -> HttpFailure:  # fmt: skip
        self.counts["failures"] += 1
        return HttpFailure(Failure(kind, text, retryable), status, body)

    def hide(self, secret: str) -> None:
        """Add a key that no message may show."""
        self._secrets |= {secret, quote(secret, safe=""), quote(secret)} - {""}

    def _shown(self, text: str) -> str:
        for form in self._secrets:
            text = text.replace(form, "***")
        return text


async def _read(response: Any, most: int) -> bytes:
    """The body of a streamed httpx response, unpacked: at most ``most`` bytes, also of what comes
    over the wire.

    Raises:
        TooLong: there are more.
        OSError: it is packed in another way, or broken.
    """
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > most:
            raise TooLong
        parts.append(part)
    body = b"".join(parts)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "deflate"):
        raise OSError(f"content encoding {encoding!r} was not asked for")
    try:  # by ourselves, so that a small body cannot become a large one first
        plain = zlib.decompressobj(47).decompress(body, most + 1)  # 47: either format
    except zlib.error as error:
        raise OSError(f"broken {encoding} body: {error}") from None
    if len(plain) > most:
        raise TooLong
    return plain
