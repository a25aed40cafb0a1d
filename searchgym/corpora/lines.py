"""Reading line-based files so that every fault has a file and a line number."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError


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

    ``DataError`` if the file is absent, not UTF-8, or its compression is broken.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for raw in stream:
                number += 1
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if line.strip():
                    yield Line(path, number), line
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{Line(path, number)}: not UTF-8 text ({error.reason})") from None
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}, after line {number}: cannot be read: {error}") from error


def read_json(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """One JSON object per line; ``DataError`` names the line that is not one."""
    for where, line in read_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not valid JSON: {error}") from None
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


def _unquote(cell: str) -> str:
    if len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"')
    return cell


def text_of(record: dict[str, Any], key: str, where: Line) -> str:
    """A text value of a record; ``DataError`` if it is missing or of another type."""
    if key not in record:
        raise DataError(f"{where}: no {key!r}; it has {', '.join(map(repr, record)) or 'nothing'}")
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
