"""Reading line-based files so that every fault has a file and a line number."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import DataError

MAX_LINE = 16 << 20
"""Maximum bytes of a line."""
MAX_UNPACKED, MAX_RATIO = 256 << 20, 100
"""A compressed file that unpacks to more bytes than this, and to so many times its own, is not
read on."""
_RECORD = frozenset({"id", "_id", "text", "contents", "question"})
"""Keys of an object that is a passage or a question, not a list of them."""
COLUMN_NAMES = _RECORD | {
    "title", "url", "answers", "answer", "golden_answers", "hops", "type"
}  # fmt: skip
"""Columns with a meaning."""
_SEP = re.compile(r'"?sep=([^"\r\n])"?[ \t]*(?:\r\n?|\n|\Z)', re.I)
_SAMPLE = 65_536
"""Characters of a table from which its separator is told."""
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
    """Non-blank lines of a UTF-8 text file, gzipped if its name ends in ``.gz``; they end at line
    feeds alone, for JSON may hold the other signs that part lines.

    ``DataError`` if the file is absent, not UTF-8 (``NotUTF8Error``) or no regular file, its
    compression is broken, a line is longer than ``MAX_LINE``, or it unpacks to far more than its
    size.
    """
    for number, raw in _raw_lines(path):
        if len(raw) > MAX_LINE:
            raise DataError(f"{Line(path, number)}: longer than {MAX_LINE:,} bytes")
        line = _decoded(raw, Line(path, number)).rstrip("\r\n")
        if line.strip():
            yield Line(path, number), line


def read_text(path: Path) -> str:
    """The whole of a UTF-8 text file; ``DataError`` as in ``read_lines``, but for long lines."""
    return _decoded(b"".join(raw for _, raw in _raw_lines(path, None)), Line(path, 1))


def _raw_lines(path: Path, longest: int | None = MAX_LINE) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one that is longer than ``longest``, a byte more than that."""
    number, size = 0, 0
    try:
        with open_regular(path) as file:
            packed = path.suffix == ".gz"
            most = max(MAX_UNPACKED, MAX_RATIO * os.fstat(file.fileno()).st_size)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            while raw := stream.readline(-1 if longest is None else longest + 1):
                number += 1
                size += len(raw)
                if packed and size > most:
                    raise DataError(
                        f"{path} unpacks to more than {MAX_RATIO} times its size; unpack it "
                        "yourself if you trust it"
                    )
                yield number, raw
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}, after line {number}: cannot be read: {error}") from error


def _decoded(raw: bytes, first: Line) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = Line(first.path, first.number + raw.count(b"\n", 0, error.start))
        raise NotUTF8Error(
            f"{where}: not UTF-8 text ({error.reason}); save the file as UTF-8"
        ) from None
    return text.lstrip("\ufeff") if first.number == 1 else text


def read_json(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The objects of JSON lines, of an array, or of the only list in an object
    (``{"documents": […]}``), of which a "line" is the place.

    ``DataError`` names the line that is no object.
    """
    if _is_one_value(path):
        try:
            records = enumerate(table_of(json.loads(read_text(path))), 1)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not valid JSON: {error}") from None
        for number, record in records:
            yield _object(record, Line(path, number), " in a list")
        return
    for where, line in read_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            ending = Path(path.name.removesuffix(".gz")).suffix
            known = ending in (".json", ".jsonl", ".ndjson")
            if not known:
                raise DataError(
                    f"{path}: there is no reader for {ending or 'a file without an ending'}, and "
                    f"as JSON lines it is not valid ({where}: {error}); text, Markdown, HTML, PDF, "
                    "DOCX, CSV, TSV and JSON are read"
                ) from None
            raise DataError(f"{where}: not valid JSON: {error}") from None
        yield _object(record, where)


def _object(record: Any, where: Line, within: str = "") -> tuple[Line, dict[str, Any]]:
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected a JSON object, got {json.dumps(record)[:60]}{within}")
    return where, record


def _is_one_value(path: Path) -> bool:
    """Test if a file holds one JSON value rather than an object per line, by its first lines."""
    near = (raw.lstrip(b"\xef\xbb\xbf \t\r\n") for _, raw in islice(_raw_lines(path), 1000))
    lines = filter(None, near)
    first = next(lines, b"")
    if not first.startswith(b"{") or len(first) > MAX_LINE or first.strip() == b"{":
        return first.startswith((b"[", b"{"))
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return path.name.removesuffix(".gz").endswith(".json")
    return table_of(value) != [value] and next(lines, None) is None


def table_of(value: Any) -> list[Any]:
    """The records of a JSON value: of an array, or of the only list of objects in an object that is
    no record itself; else the value is one."""
    if isinstance(value, list):
        return value
    lists = [
        inner
        for inner in (value.values() if isinstance(value, dict) else ())
        if isinstance(inner, list) and all(isinstance(record, dict) for record in inner)
    ]
    return lists[0] if len(lists) == 1 and not _RECORD & value.keys() else [value]


def read_tsv(
    path: Path, headers: dict[int, tuple[str, ...]]
) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Rows as records. The first row is a header if all its cells are names of columns; otherwise
    ``headers`` gives the columns' names by their number."""
    columns: tuple[str, ...] = ()
    for where, line in read_lines(path):
        cells = [_unquote(cell) for cell in line.split("\t")]
        if not columns:
            if all(cell.strip().lower() in COLUMN_NAMES for cell in cells):
                columns = tuple(_header(cells, where))
                continue
            if len(cells) not in headers:
                shapes = " or ".join("⇥".join(h) for h in headers.values())
                raise DataError(f"{where}: {len(cells)} columns; expected {shapes}, or a header")
            columns = headers[len(cells)]
        if len(cells) != len(columns):
            raise DataError(f"{where}: {len(cells)} columns, expected {len(columns)}")
        yield where, dict(zip(columns, cells, strict=True))


def read_csv(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Rows of a table as records; the first row is the header, and its separator is told from the
    rows (``read_table``). Empty cells are left out."""
    columns: list[str] = []
    try:
        for number, row in read_table(read_text(path), strict=True):
            where = Line(path, number)
            if not columns:
                columns = _header(row, where)
                continue
            if len(row) != len(columns):
                raise DataError(f"{where}: {len(row)} columns, expected {len(columns)}")
            yield where, {k: v for k, v in zip(columns, row, strict=True) if v.strip()}
    except csv.Error as error:
        raise DataError(f"{path}, {error}") from None


def read_table(
    text: str, delimiter: str | None = None, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table of values that are not blank, with the number of their first line.

    Args:
        delimiter: Default: what Excel's first line ``sep=;`` says, else what parts the rows into
            the same number of cells most often.
        strict: Raise for a quotation mark out of place.

    Raises:
        csv.Error: with the number of the line.
    """
    last = 0
    if said := _SEP.match(text):
        text, delimiter, last = text[said.end() :], delimiter or said[1], 1
    # longer cells are refused otherwise; raising this limit of the process harms nobody
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    before, made = last, delimiter or _delimiter(text)
    first = next(filter(str.strip, text[:_SAMPLE].splitlines()), "")
    spaced = first.count(made) == first.count(made + " ") > 0  # "id, text": also before quotes
    rows = csv.reader(
        io.StringIO(text, newline=""), delimiter=made, strict=strict, skipinitialspace=spaced
    )
    try:
        for row in rows:
            if any(cell.strip() for cell in row):
                yield last + 1, row
            last = before + rows.line_num
    except csv.Error as error:
        raise csv.Error(f"line {last + 1}: {error}") from None


def _delimiter(text: str) -> str:
    sample = text[:_SAMPLE]
    if len(text) > _SAMPLE:
        sample = sample[: max(sample.rfind("\n"), sample.rfind("\r")) + 1] or sample

    def fit(delimiter: str) -> tuple[bool, float, int, int]:
        table = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        rows = [row for row in table if any(cell.strip() for cell in row)]
        widths = [len(row) for row in rows] or [0]
        prose = sum(cell.startswith(" ") for row in rows for cell in row[1:])
        titled = widths[0] < 2  # a line above the header
        width = max((w for w in widths if w > 1), key=widths.count, default=1)
        width = width if titled else widths[0]
        return not titled, widths.count(width) / len(widths) * (width > 1), -prose, width

    return max(",;\t|", key=fit)


def _header(cells: list[str], where: Line) -> list[str]:
    """The names of columns; of those with a meaning, none may come twice."""
    names = [cell.strip().lower() for cell in cells]
    for name in sorted(COLUMN_NAMES):
        if names.count(name) > 1:
            raise DataError(f"{where}: several columns are called {name!r}; rename all but one")
    return distinct(names)


def distinct(names: list[str]) -> list[str]:
    """Column names, of which those that were there before get a number."""
    seen = Counter[str]()
    made = []
    for name in names:
        seen[name] += 1
        made.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return made


def _unquote(cell: str) -> str:
    if len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"')
    return cell


def missing(record: dict[str, Any], key: str, where: Line) -> DataError:
    """Make the error of a value that a record lacks."""
    there = ", ".join(map(repr, record)) or "nothing"
    table = where.path.name.removesuffix(".gz").endswith(".csv")
    said = f"{where}: no {key!r}; it has {there}" + " (empty cells are left out)" * table
    return DataError(said + "; a passage has id, title and text" * (key in ("id", "text")))


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
