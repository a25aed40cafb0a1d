"""Readers of trajectory files; the first record of a file decides which one reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError
from ...storage.files import parse_json
from ..record import Record, checked
from . import messages, search_r1, searchgym, verifiers_traces

JSON_FORMATS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], Record]]] = {
    searchgym.NAME: (searchgym.fits, searchgym.read),
    search_r1.NAME: (search_r1.fits, search_r1.read),
    messages.VERIFIERS: (messages.is_rollout, messages.read_rollout),
    verifiers_traces.NAME: (verifiers_traces.fits, verifiers_traces.read),
    messages.CHAT: (messages.is_chat, messages.read_chat),
}
"""Formats in the order they are asked: whether a first record is of one, and its reader."""
_BROKEN = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
LOG = "search_r1_log"
MOST_LINE = 64 << 20
"""Bytes of a record; a longer line is a broken one."""
_TRIED, _HEAD = 20, 1 << 16
"""Lines that are tried as records of a format, and bytes in which text holds no NUL."""
EXPECTED = (
    "expected trajectories of SearchGym (searchgym eval --out, train.save_rollouts), Search-R1 "
    "(its printed log or verl's rollout dump), verifiers (results.jsonl, traces.jsonl), or "
    "OpenAI messages"
)


def detect(path: Path) -> str:
    """The format of a file, by the first of its first lines that is a record of one.

    Raises:
        DataError: it is of none that is known; says so of the first line.
    """
    first, wrong = True, ""
    with path.open("rb") as file:
        lines = (line for line in iter(lambda: file.readline(MOST_LINE), b"") if line.strip())
        for line in islice(lines, _TRIED):
            name, told = _format_of(line)
            if name:
                return name
            wrong = wrong or told
            if first and b"\0" in line[:_HEAD]:
                raise DataError(f"{path} is not text; {EXPECTED}")
            first = False
    if not wrong:
        raise DataError(f"{path} is empty; {EXPECTED}")
    if "JSON" in wrong and search_r1.is_log(path):
        return LOG
    raise DataError(f"{path}: line 1 is {wrong}; {EXPECTED}")


def _format_of(line: bytes) -> tuple[str, str]:
    """The format of a line, or "" and what it is instead."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "", "not JSON"
    if not isinstance(value, dict):
        return "", "no object"
    for name, (fits, _) in JSON_FORMATS.items():
        if fits(value):
            return name, ""
    return "", f"an object with {', '.join(list(value)[:8])}"


class RecordBytes(NamedTuple):
    """The bytes of one record."""

    offset: int
    data: bytes
    then: int | None
    """Offset at which to go on reading after it; None within a line that holds several records."""


def blocks(path: Path, kind: str, start: int = 0) -> Iterator[RecordBytes]:
    """Each whole record from a byte on; a last line without its end is left for later, as it is
    still being written."""
    if kind == LOG:
        for at, data in search_r1.blocks(path):
            yield RecordBytes(at, data, at + len(data))
        return
    with path.open("rb") as file:
        file.seek(start)
        at = start
        while line := file.readline(MOST_LINE):
            end = at + len(line)
            if not line.endswith(b"\n") and not _whole(line):
                if len(line) < MOST_LINE:
                    return
                while line and not line.endswith(b"\n"):  # no record is as long as that
                    line = file.readline(MOST_LINE)
                    end += len(line)
                yield RecordBytes(at, b"", end)
            elif kind == verifiers_traces.NAME and line.strip():
                *more, (last, stop) = verifiers_traces.pieces(line)
                for begin, upto in more:
                    yield RecordBytes(at + begin, line[begin:upto], None)
                yield RecordBytes(at + last, line[last:stop], end)
            elif line.strip():
                yield RecordBytes(at, line, end)
            at = end


def parse(data: bytes, kind: str, where: str) -> Record:
    """A record; ``DataError`` begins with ``where``."""
    try:
        if kind == LOG:
            return checked(search_r1.read_block(data))
        if not data:
            raise ValueError(f"a line is longer than {MOST_LINE >> 20} MiB")
        value: Any = parse_json(data, "it", nan=True)
        if _HALF.search(data):
            value = json.loads(_whole_characters(json.dumps(value, ensure_ascii=False)))
        return checked(JSON_FORMATS[kind][1](value))
    except _BROKEN as error:
        told = f"no {key!r}" if isinstance(error, KeyError) and (key := error.args[0]) else error
        raise DataError(f"{where}: not a record of {kind}: {told}") from error


def _whole_characters(text: str) -> str:
    """Halves of characters, which models write and JSON can hold, but neither a database nor a page
    can, become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


# --- the files of a run -------------------------------------------------------------------------
MOST_FILES = 2000
PATTERNS = ("*.jsonl", "*.log", "*.txt")
_STEP = re.compile(r"(?:step|checkpoint|iter|global_step)[-_.]?(\d{1,18})(?!\d)", re.IGNORECASE)
_ENDINGS = (".jsonl", ".log", ".txt", ".trajectories", ".rollouts")


class Source(NamedTuple):
    """A file, and what its name says of the episodes in it."""

    path: Path
    name: str
    """Relative to the run."""
    kind: str
    """A format's name."""
    agent: str
    step: int | None


def sources(run: Path) -> list[Source]:
    """The files of a folder (or the one file) that hold trajectories, by name.

    Raises:
        DataError: there are none, or the one file is of no known format.
    """
    if run.is_file():
        return [_source(run, run.parent, detect(run))]
    if not run.is_dir():
        raise DataError(f"{run} is neither a file nor a folder; give a run: searchgym view RUN")
    paths = sorted({p for pattern in PATTERNS for p in run.rglob(pattern) if p.is_file()})
    if len(paths) > MOST_FILES:
        raise DataError(f"{run} holds {len(paths):,} files; give one run, of up to {MOST_FILES:,}")
    readable, wrong = [], ""
    for path in paths:
        try:
            readable.append(_source(path, run, detect(path)))
        except DataError as error:  # a log of steps beside trajectories is nothing wrong
            wrong = wrong or str(error)
    if not readable:
        raise DataError(
            f"{run} holds no trajectories" + (f" ({wrong})" if wrong else f"; {EXPECTED}")
        )
    return readable


def _source(path: Path, run: Path, kind: str) -> Source:
    name = path.relative_to(run).as_posix()
    stem = path.name
    while stem.endswith(_ENDINGS):
        stem = stem.rpartition(".")[0]
    step = _STEP.search(name)
    if stem.isdecimal() and len(stem) <= 18:  # verl names its dumps by step
        return Source(path, name, kind, path.parent.name, int(stem))
    if stem in ("results", "rollouts", "traces"):  # names of what they hold, not of who played
        stem = path.resolve().parent.name
    agent = _STEP.sub("", stem).strip("-_.") or stem
    return Source(path, name, kind, agent, int(step.group(1)) if step else None)
