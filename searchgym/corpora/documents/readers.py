"""Files to passages: formats by ending, a process with limits, and what was read before.

Documents are read in a process of their own, which ends where a file takes too long or too much; it
serves many files and is started again after it has ended. Short plain texts are read here: their
reader takes a time in proportion to their length.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...errors import DataError, MissingExtraError
from ...storage.files import write_whole
from ..lines import open_regular
from .encoding import CannotReadNow, Unreadable, decode
from .formats import (
    TextBlock,
    csv_blocks,
    json_blocks,
    markdown_blocks,
    pdf_blocks,
    pieces,
    plain_blocks,
)

Pieces = list[tuple[str, str]]
_SOFT_HYPHEN = "\u00ad"


class Format(NamedTuple):
    """A file format."""

    name: str
    blocks: Callable[[str], Iterator[TextBlock]] | None
    """Reads decoded text; None: reads bytes (see :func:`_blocks_of_bytes`)."""
    packages: tuple[str, ...] = ()
    """Modules of the extra "documents" that it needs."""


_TEXT = Format("text", plain_blocks)
_MARKDOWN = Format("Markdown", markdown_blocks)
_HTML = Format("HTML", None, ("lxml",))
_JSON = Format("JSON", json_blocks)
FORMATS = {
    ".txt": _TEXT, ".text": _TEXT, ".rst": _TEXT, ".log": _TEXT,
    ".md": _MARKDOWN, ".markdown": _MARKDOWN,
    ".html": _HTML, ".htm": _HTML, ".xhtml": _HTML,
    ".pdf": Format("PDF", None, ("pypdf",)),
    ".docx": Format("DOCX", None, ("lxml",)),
    ".csv": Format("CSV", csv_blocks),
    ".tsv": Format("TSV", lambda text: csv_blocks(text, "\t")),
    ".json": _JSON, ".jsonl": _JSON, ".ndjson": _JSON,
}  # fmt: skip
"""Ending → format. A text format's file may be gzipped (``notes.csv.gz``)."""


class ParsedFile(NamedTuple):
    """Result of reading a file."""

    format: str
    encoding: str
    """Empty for formats that are not text."""
    pieces: Pieces
    """(title, text) of its passages; the title may be empty."""


def format_of(path: Path) -> Format | None:
    """The format that a file's name says; None for one that is not read."""
    form = FORMATS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    packed = path.name.lower().endswith(".gz")
    return None if packed and form is not None and form.blocks is None else form


def parse(path: Path, *, words: int, max_bytes: int) -> ParsedFile:
    """Read one file.

    Raises:
        Unreadable: with the reason; ``CannotReadNow`` if that is not the file.
        MemoryError: there is too little.
    """
    form = format_of(path)
    if form is None:
        raise Unreadable(f"no reader for {path.suffix or 'files without an ending'}")
    try:
        raw = _bytes(path, max_bytes)
        if not raw.strip():
            raise Unreadable("empty")
        if form.blocks is None:
            blocks, encoding = _blocks_of_bytes(form, raw, max_bytes)
        else:
            text, encoding = decode(raw)
            blocks = form.blocks(text)
        passages = [
            (title.replace(_SOFT_HYPHEN, ""), text.replace(_SOFT_HYPHEN, ""))
            for title, text in pieces(blocks, words)
            if text.strip()
        ]
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except OSError as error:
        raise CannotReadNow(f"cannot be read: {error.strerror or error}") from None
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # a damaged file makes a library raise anything
        if form.blocks is not None:
            raise
        if "memory" in str(error).lower():
            raise MemoryError from error
        raise Unreadable(f"not a {form.name} file that can be read: {error!r:.120}") from error
    if not passages:
        raise Unreadable("holds no text")
    return ParsedFile(form.name, encoding, passages)


def _bytes(path: Path, most: int) -> bytes:
    with open_regular(path) as file:
        raw = file.read(most + 1)
        if len(raw) > most:
            size = path.stat().st_size
            raise Unreadable(f"too large ({size:,} bytes, limit {most:,})")
        if not path.name.lower().endswith(".gz"):
            return raw
        file.seek(0)
        try:
            unpacked = gzip.GzipFile(fileobj=file).read(most + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Unreadable(f"broken compression: {error}") from None
    if len(unpacked) > most:
        raise Unreadable(f"unpacks to more than {most:,} bytes")
    return unpacked


def _blocks_of_bytes(form: Format, raw: bytes, max_bytes: int) -> tuple[Iterator[TextBlock], str]:
    try:
        for package in form.packages:
            __import__(package)
    except ImportError:
        raise CannotReadNow(str(MissingExtraError(form.name, "documents"))) from None
    encoding = ""
    if form.name == "PDF":
        blocks = pdf_blocks(raw)
    elif form.name == "DOCX":
        from .word import docx_blocks

        blocks = docx_blocks(raw, 10 * max_bytes)
    else:
        from .web_page import html_blocks

        blocks, encoding = html_blocks(raw)
    return blocks, encoding


SECONDS, SECONDS_A_MB, MEMORY = 10, 1, 2 << 30
"""Processor time that a file may take, also for its size, and memory of the process."""
_TIMED = hasattr(signal, "setitimer")
_PATIENCE = 30 if _TIMED else 6
"""Times its seconds that a file may take by the clock, on a busy machine or a slow disk."""
_PLAIN_BYTES = 1_000_000
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from searchgym.corpora.documents.readers import serve; serve(int(sys.argv[2]))"
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

    def __exit__(self, *error: object) -> None:
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


VERSION = 2
"""Raised whenever a reader gives other passages for the same file."""
_LIBRARIES = ("lxml", "pypdf", "markdown-it-py")
"""Packages whose version decides what is read, and whether it can be."""
_SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again within the same tick of the
file system's clock: it is read again."""


class RememberedFiles:
    """Keeps what was read of files that did not change.

    A file is the same if its size, its times of change and its number (inode) are. A reason that is
    not the file's (``CannotReadNow``) is not kept, and nothing is once a library has changed.
    """

    def __init__(self, path: Path, *, words: int, max_file_bytes: int) -> None:
        self._path = path
        self._key = [VERSION, words, max_file_bytes, *map(_version, _LIBRARIES)]
        self._known: dict[str, Any] = self._load()
        self._used: dict[str, Any] = {}
        self.read = 0
        """Number of files that had to be read since ``begin``."""

    def begin(self) -> None:
        """Begin a pass over the folder: files that it does not ask for are forgotten at its end."""
        self._used, self.read = {}, 0

    def parse(self, path: Path, parse: Callable[[Path], ParsedFile]) -> ParsedFile:
        """Result of reading a file with ``parse``, remembered where it has not changed.

        Raises:
            Unreadable: with the reason.
        """
        name = os.path.abspath(path)
        try:
            state = os.stat(path)
        except OSError as error:
            raise CannotReadNow(f"cannot be read: {error.strerror or error}") from None
        stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        entry = self._known.get(name)
        if entry is None or entry["stamp"] != stamp:
            self.read += 1
            entry = {"stamp": stamp, **_parsed(path, parse)}
            if max(state.st_mtime_ns, state.st_ctime_ns) > time.time_ns() - _SETTLED_NS:
                entry["stamp"] = None
        self._used[name] = entry
        if "reason" in entry:
            raise Unreadable(entry["reason"])
        pieces = [(title, text) for title, text in entry["pieces"]]
        return ParsedFile(entry["format"], entry["encoding"], pieces)

    def end(self) -> None:
        """End a pass, and write what is known now if anything was read or forgotten."""
        changed = self.read or self._used.keys() != self._known.keys()
        self._known = self._used
        if changed:
            write_whole(self._path, json.dumps({"key": self._key, "files": self._known}))

    def _load(self) -> dict[str, Any]:
        try:
            saved = json.loads(self._path.read_text(encoding="utf-8"))
            if saved["key"] != self._key:
                return {}
            files: dict[str, Any] = saved["files"]
            for entry in files.values():
                if not ("reason" in entry or all(len(piece) == 2 for piece in entry["pieces"])):
                    return {}
            return files
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}


def _parsed(path: Path, parse: Callable[[Path], ParsedFile]) -> dict[str, Any]:
    try:
        return parse(path)._asdict()
    except CannotReadNow:
        raise
    except Unreadable as error:
        return {"reason": str(error)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
