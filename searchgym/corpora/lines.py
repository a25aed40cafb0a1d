"""Reading line-based files so that every fault has a file and a line number."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import DataError

MAX_LINE = 16 << 20
"""Maximum bytes of a line."""
MAX_UNPACKED, MAX_RATIO = 256 << 20, 100
"""A compressed file that unpacks to more bytes than this, and to so many times its own, is not
read on."""
_KINDS = {
    stat.S_IFIFO: "a FIFO (named pipe)", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder",
}  # fmt: skip


def kind_of_file(path: Path) -> str | None:
    """Name what a path leads to that is no regular file ("a device", …), None for one; a link
    counts as what it leads to."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading; pipes, devices and sockets, which may never end, are refused
    at once.

    Raises:
        FileNotFoundError: it does not exist.
        DataError: it is no regular file.
    """
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(opened, "rb")
    os.close(opened)
    kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
    raise DataError(f"{path} is {kind}, not a file; save what it gives in a file first")


class NotUTF8Error(DataError):
    """Raised for a file of records in another encoding than UTF-8."""


class Line(NamedTuple):
    """The place where something was read; ``str()`` of it begins every error message."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path}, line {self.number}"


def is_tsv(path: Path) -> bool:
    """Return whether the name says tab-separated values, compressed or not."""
    return path.name.removesuffix(".gz").endswith((".tsv", ".txt"))


def read_lines(path: Path) -> Iterator[tuple[Line, str]]:
    """Non-blank lines of a UTF-8 text file, gzipped if its name ends in ``.gz``.

    ``DataError`` if the file is absent, not UTF-8 (``NotUTF8Error``) or no regular file, its
    compression is broken, a line is longer than ``MAX_LINE``, or it unpacks to far more than its
    size.
    """
    number, size = 0, 0
    try:
        with open_regular(path) as file:
            packed = path.suffix == ".gz"
            most = max(MAX_UNPACKED, MAX_RATIO * os.fstat(file.fileno()).st_size)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            while raw := stream.readline(MAX_LINE + 1):
                number += 1
                size += len(raw)
                if len(raw) > MAX_LINE:
                    raise DataError(f"{Line(path, number)}: longer than {MAX_LINE:,} bytes")
                if packed and size > most:
                    raise DataError(
                        f"{path} unpacks to more than {MAX_RATIO} times its size; unpack it "
                        "yourself if you trust it"
                    )
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if line.strip():
                    yield Line(path, number), line
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise NotUTF8Error(
            f"{Line(path, number)}: not UTF-8 text ({error.reason}); save the file as UTF-8"
        ) from None
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}, after line {number}: cannot be read: {error}") from error


def read_json(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """One JSON object per line; ``DataError`` names the line that is not one."""
    for where, line in read_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            ending = Path(path.name.removesuffix(".gz")).suffix
            known = ending in (".json", ".jsonl", ".ndjson")
            other = "" if known else f" (a file that ends in {ending!r} is read as JSON lines)"
            raise DataError(f"{where}: not valid JSON: {error}{other}") from None
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected a JSON object, got {type(record).__name__}")
        yield where, record


def read_tsv(
    path: Path, headers: dict[int, tuple[str, ...]], names: frozenset[str]
) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Rows as records. The first row is a header if all its cells are among ``names``; otherwise
    ``headers`` gives the columns' names by their number."""
    columns: tuple[str, ...] = ()
    for where, line in read_lines(path):
        cells = [_unquote(cell) for cell in line.split("\t")]
        if not columns:
            if all(cell.strip().lower() in names for cell in cells):
                columns = tuple(cell.strip().lower() for cell in cells)
                continue
            if len(cells) not in headers:
                shapes = " or ".join("⇥".join(h) for h in headers.values())
                raise DataError(f"{where}: {len(cells)} columns; expected {shapes}, or a header")
            columns = headers[len(cells)]
        if len(cells) != len(columns):
            raise DataError(f"{where}: {len(cells)} columns, expected {len(columns)}")
        yield where, dict(zip(columns, cells, strict=True))


def read_csv(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Rows of a comma- or semicolon-separated table as records; the first row is the header.
    Empty cells are left out."""
    lines = list(read_lines(path))
    if not lines:
        return
    text = io.StringIO("".join(f"{line}\n" for _, line in lines), newline="")
    head = lines[0][1]
    try:
        rows = csv.reader(text, delimiter=max(",;\t", key=head.count), strict=True)
        columns = [name.strip().lower() for name in next(rows)]
        last = rows.line_num
        for row in rows:
            where, last = lines[last][0], rows.line_num
            if len(row) != len(columns):
                raise DataError(f"{where}: {len(row)} columns, expected {len(columns)}")
            yield where, {k: v for k, v in zip(columns, row, strict=True) if v.strip()}
    except csv.Error as error:
        raise DataError(f"{lines[min(last, len(lines) - 1)][0]}: {error}") from None


def is_array(path: Path) -> bool:
    """Return whether a JSON file holds one array, or one object over several lines, rather than an
    object per line."""
    if not path.name.removesuffix(".gz").endswith(".json"):
        return False
    lines = iter(read_lines(path))
    _, first = next(lines, (None, ""))
    return first.lstrip().startswith("[") or first.strip() == "{"


def read_array(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The objects of a JSON array, also of the only list of an object; a "line" is its place."""
    try:
        value = json.loads("\n".join(line for _, line in read_lines(path)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON: {error}") from None
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else [value]
    for number, record in enumerate(value, 1):
        where = Line(path, number)
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected a JSON object, got {type(record).__name__}")
        yield where, record


def _unquote(cell: str) -> str:
    if len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"')
    return cell


def missing(record: dict[str, Any], key: str, where: Line) -> DataError:
    """Make the error of a value that a record lacks."""
    there = ", ".join(map(repr, record)) or "nothing"
    table = where.path.name.removesuffix(".gz").endswith(".csv")
    return DataError(f"{where}: no {key!r}; it has {there}" + " (empty cells are left out)" * table)


def text_of(record: dict[str, Any], key: str, where: Line) -> str:
    """A text value of a record; ``DataError`` if it is missing or of another type."""
    if key not in record:
        raise missing(record, key, where)
    value = record[key]
    if not isinstance(value, str):
        raise DataError(f"{where}: {key!r} must be text, got {type(value).__name__}")
    return value


def id_of(record: dict[str, Any], where: Line) -> str:
    """The record's ``id`` (or ``_id``): non-empty text or a whole number."""
    key = "_id" if "_id" in record and "id" not in record else "id"
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not text_of(record, key, where).strip():
        raise DataError(f"{where}: {key!r} is empty")
    return str(value)


class Unique:
    """Refuses an id seen before, naming both lines."""

    def __init__(self) -> None:
        self._seen: dict[str, Line] = {}

    def check(self, key: str, where: Line) -> None:
        """``DataError`` if ``key`` was seen before."""
        first = self._seen.setdefault(key, where)
        if first is not where:
            raise DataError(f"{where}: id {key!r} was already used in {first}")
