"""Calling a service once for many requests, and the keys by which equal ones are known."""

from __future__ import annotations

import errno
import hashlib
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .errors import EngineError
from .types import Failure, Query, Service

_NETWORK = frozenset(
    getattr(errno, name)
    for name in (
        "ENETUNREACH", "ENETDOWN", "ENETRESET", "EHOSTUNREACH", "EHOSTDOWN", "ECONNREFUSED",
        "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EPIPE",
    )
    if hasattr(errno, name)  # Windows lacks some
)  # fmt: skip
_CLIENTS = {
    "httpx": ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"),
    "requests": ("Timeout", "ConnectionError"),
}
"""Clients whose errors do not derive from Python's own, and theirs of connections."""


def run_batch(service: Service[Any, Any], batch: Sequence[Any]) -> Sequence[Any]:
    """Answers in order; requests with equal ``cache_key`` are asked once (``None``: never shared).

    A timeout, a connection error or a status such as 503 of the whole call becomes a ``Failure``
    per item; anything else (a file that is missing, say) is a defect and propagates.
    ``EngineError`` if the service returns another number of answers.
    """
    first: dict[bytes, int] = {}
    asked: list[Any] = []
    where: list[int] = []
    for request in batch:
        key = service.cache_key(request)
        if key is None:
            where.append(len(asked))
            asked.append(request)
        elif (at := first.setdefault(key, len(asked))) == len(asked):
            where.append(at)
            asked.append(request)
        else:
            where.append(at)
    answers: Sequence[Any]
    try:
        answers = service.run(asked)
    except Exception as error:
        if (failure := _outage(error)) is None:
            raise
        answers = [failure] * len(asked)
    if len(answers) != len(asked):
        raise EngineError(
            f"{type(service).__name__}.run gave {len(answers)} answers for {len(asked)} requests"
        )
    return answers if len(asked) == len(batch) else [answers[i] for i in where]


def retried(
    service: Service[Any, Any],
    requests: Sequence[Any],
    retries: int,
    again: Callable[[Any, int], Any] | None = None,
) -> list[Any]:
    """Answers in order, as of :func:`run_batch`; retryable failures are asked again, ``retries``
    times at most. ``again`` makes a request's next one, given its number from 1; default: the same.
    """
    answers = list(run_batch(service, requests)) if requests else []
    for attempt in range(1, retries + 1):
        failed = [i for i, a in enumerate(answers) if isinstance(a, Failure) and a.retryable]
        if not failed:
            break
        more = [again(requests[i], attempt) if again else requests[i] for i in failed]
        for i, answer in zip(failed, run_batch(service, more), strict=True):
            answers[i] = answer
    return answers


def _outage(error: BaseException) -> Failure | None:
    """The failure that a network's error is and that may pass; None: not one."""
    kinds = [
        kind
        for module, names in _CLIENTS.items()
        if (loaded := sys.modules.get(module)) is not None  # else the error is not of its kind
        for name in names
        if isinstance(kind := getattr(loaded, name, None), type)
    ]
    cause = getattr(error, "reason", None)  # urllib wraps what it met
    if isinstance(error, OSError) and isinstance(cause, OSError):
        return _outage(cause)
    if isinstance(error, (TimeoutError, *(k for k in kinds if k.__name__.startswith("Timeout")))):
        return Failure("timeout", str(error))
    from .utils.http import may_pass  # loads asyncio, and only a failure asks

    if (status := _status(error)) is not None and may_pass(status):
        return Failure("unavailable", str(error))
    network = (ConnectionError, socket.gaierror, ssl.SSLError, *kinds)
    if isinstance(error, network) or (isinstance(error, OSError) and error.errno in _NETWORK):
        return Failure("unavailable", str(error))
    return None


def _status(error: BaseException) -> int | None:
    """The HTTP status an error speaks of: urllib's has a ``code``, others have a response."""
    status = getattr(getattr(error, "response", None), "status_code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def text_and_k(query: Query) -> bytes:
    """The key of an engine that is pure in the query's text and k."""
    return f"{query.k}\0{query.text}".encode("utf-8", "surrogatepass")


def joint_key(keys: Iterable[bytes | None]) -> bytes | None:
    """One key of several, in order; ``None`` as soon as one of them shares no answers."""
    h = hashlib.blake2b(digest_size=32)
    for key in keys:
        if key is None:
            return None
        h.update(len(key).to_bytes(8, "big") + key)
    return h.digest()
