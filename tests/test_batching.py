"""Whole calls of a service that fail: outages are data, defects are raised."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import httpx
import pytest

from searchgym.batching import run_batch
from searchgym.types import Failure


class Broken:
    """A service whose every call raises ``error``."""

    needs_task = False
    fingerprint = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def cache_key(self, request: Any) -> bytes | None:
        return None

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        raise self.error


class Clients(OSError):
    """As asynchronous clients derive theirs: Python does not make it a ConnectionError."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("t"), "timeout"),
        (httpx.ReadTimeout("t"), "timeout"),
        (URLError(TimeoutError("t")), "timeout"),
        (ConnectionResetError("c"), "unavailable"),
        (socket.gaierror(socket.EAI_AGAIN, "no such host"), "unavailable"),
        (OSError(errno.EHOSTUNREACH, "no route to host"), "unavailable"),
        (URLError(ConnectionRefusedError("c")), "unavailable"),
        (httpx.ConnectError("c"), "unavailable"),
        (httpx.RemoteProtocolError("c"), "unavailable"),
        (HTTPError("http://x", 503, "busy", Message(), None), "unavailable"),
        (Clients(errno.ECONNREFUSED, "Connect call failed"), "unavailable"),
    ],
)
def test_outages_are_failures_that_may_pass(error: Exception, kind: str) -> None:
    answers = run_batch(Broken(error), ["a", "b"])
    assert len(answers) == 2
    for answer in answers:
        assert isinstance(answer, Failure)
        assert (answer.kind, answer.retryable) == (kind, True)


def test_errors_of_requests_are_known_where_it_is_installed() -> None:
    requests = pytest.importorskip(
        "requests", reason="no dependency: known only where it is installed"
    )
    found = [
        run_batch(Broken(error("x")), [1])[0].kind
        for error in (requests.ConnectTimeout, requests.ConnectionError)
    ]
    assert found == ["timeout", "unavailable"]


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "denied", "index.bin"),
        OSError(errno.ENOSPC, "no space left on device"),
        URLError("unknown url type: htp"),
        HTTPError("http://x", 404, "not there", Message(), None),
        httpx.UnsupportedProtocol("htp"),
        ValueError("a defect"),
        KeyboardInterrupt(),
    ],
)
def test_all_else_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        run_batch(Broken(error), ["a"])
    assert caught.value is error


def test_a_missing_file_is_no_outage(tmp_path: Path) -> None:
    class Reading(Broken):
        def run(self, batch: Sequence[Any]) -> Sequence[Any]:
            return [(tmp_path / "index.bin").read_bytes() for _ in batch]

    with pytest.raises(FileNotFoundError, match=r"index\.bin"):
        run_batch(Reading(ValueError()), ["a"])
