"""Other people's model servers as child processes on loopback."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@contextmanager
def child(command: Sequence[str], port: int, log: Path, **environment: str) -> Iterator[float]:
    """Seconds until ``/health`` answered; ends the server afterwards, fails with its log."""
    begun = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **OFFLINE, **environment},
        )
    try:
        while not _healthy(port):
            if process.poll() is not None or time.monotonic() - begun > 400:
                raise RuntimeError(f"{command[:3]} did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)
        yield time.monotonic() - begun
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
