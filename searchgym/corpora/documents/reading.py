"""Documents read in a process of their own, which ends where a file takes too long or too much.

The process serves many files and is started again after it has ended. Short plain texts are read
here: their reader takes a time in proportion to their length.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...errors import DataError
from .encoding import CannotReadNow, Unreadable
from .readers import FORMATS, ParsedFile, format_of, parse

SECONDS, SECONDS_A_MB, MEMORY = 10, 1, 2 << 30
"""Processor time that a file may take, also for its size, and memory of the process."""
_TIMED = hasattr(signal, "setitimer")
_PATIENCE = 30 if _TIMED else 6
"""Times its seconds that a file may take by the clock, on a busy machine or a slow disk."""
_PLAIN_BYTES = 1_000_000
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from searchgym.corpora.documents.reading import serve; serve(int(sys.argv[2]))"
)


class FileReader:
    """Reads files as ``readers.parse`` does, within limits; to be closed."""

    def __init__(
        self, *, words: int, max_bytes: int, seconds: float = SECONDS, memory: int = MEMORY
    ) -> None:
        self._words, self._most = words, max_bytes
        self._seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def parse(self, path: Path) -> ParsedFile:
        """Read one file.

        Raises:
            Unreadable: with the reason; ``CannotReadNow`` where the file may be read another time.
            DataError: no process can be started.
        """
        form = format_of(path)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise CannotReadNow(f"cannot be read: {error.strerror or error}") from None
        plain = form is FORMATS[".txt"] and size <= _PLAIN_BYTES
        if form is None or (plain and path.suffix.lower() != ".gz"):
            return parse(path, words=self._words, max_bytes=self._most)
        limit = self._seconds + SECONDS_A_MB * min(size, self._most) / 1e6
        told = self._answer([os.path.abspath(path), self._words, self._most, limit], limit)
        if "reason" in told:
            raise (Unreadable if told["lasting"] else CannotReadNow)(told["reason"])
        pieces = [(title, text) for title, text in told["pieces"]]
        return ParsedFile(told["format"], told["encoding"], pieces)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _answer(self, request: list[Any], limit: float) -> dict[str, Any]:
        process = self._process = self._process or _started(self._memory)
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(_PATIENCE * limit, stop)
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            answer = process.stdout.readline()
            told: dict[str, Any] = json.loads(answer) if answer.endswith(b"\n") else {}
        except BaseException:  # Ctrl-C, too: a half-read answer would be taken for the next file's
            self.close()
            raise
        finally:
            timer.cancel()
        if not told:
            self._process = None
            process.communicate()
            told = {"reason": _why(process.returncode, limit, late.is_set()), "lasting": False}
        elif told.pop("last", False):
            self.close()
        return told


def _started(memory: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-c", _CODE, json.dumps(sys.path), str(memory)]
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise DataError(
            f"documents are read in a process of their own, and none can be started: {error}"
        ) from error


def _why(code: int, limit: float, late: bool) -> str:
    """Why the process ended without an answer."""
    if late or code == -getattr(signal, "SIGPROF", 0):
        return f"takes more than {limit:.0f} s to read"
    return f"its reader crashed (exit code {code})"


def serve(memory: int) -> None:
    """Answer requests from standard input, a line of JSON each, until it ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library may print
    if _TIMED:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends also a reader that is not Python's
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no limits
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    for line in sys.stdin.buffer:
        path, words, max_bytes, seconds = json.loads(line)
        if _TIMED:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = json.dumps(_answered(Path(path), words, max_bytes)).encode()
        except MemoryError:
            reason = f"takes more than {memory / (1 << 30):.1f} GB of memory to read"
            answer = json.dumps({"reason": reason, "lasting": False, "last": True}).encode()
        if _TIMED:
            signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(answer + b"\n")
        out.flush()


def _answered(path: Path, words: int, max_bytes: int) -> dict[str, Any]:
    try:
        return parse(path, words=words, max_bytes=max_bytes)._asdict()
    except Unreadable as error:
        return {"reason": str(error), "lasting": not isinstance(error, CannotReadNow)}
