"""Rows of CSV, TSV, JSON and JSON-lines files: a passage each."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..lines import distinct, read_table, table_of
from .blocks import TextBlock
from .encoding import Unreadable

_TEXT, _TITLE = ("text", "contents", "content", "body"), ("title", "name", "heading", "subject")
_DEPTH = 20


def csv_blocks(text: str, delimiter: str | None = None) -> Iterator[TextBlock]:
    """One block per row, ``column: value`` lines; the first row names the columns."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        rows = [row for _, row in read_table(text, delimiter)]
    except csv.Error as error:
        raise Unreadable(f"not a table of values: {error}") from None
    if len(rows) < 2:
        raise Unreadable("a table without rows below its header")
    width = max(map(len, rows))
    named = [*rows[0], *[""] * (width - len(rows[0]))]
    header = distinct([name.strip() or f"column {i}" for i, name in enumerate(named, 1)])
    return record_blocks(dict(zip(header, row, strict=False)) for row in rows[1:])


def json_blocks(text: str) -> Iterator[TextBlock]:
    """One block per object of an array or of JSON lines; a lone object is one."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Unreadable("JSON nested too deeply") from None
    except ValueError as error:
        return record_blocks(_lines_of(text, error))
    records = table_of(value)  # also {"documents": [{…}, …]}
    if isinstance(value, Mapping) and records != [value]:
        around = {key: inner for key, inner in value.items() if inner is not records}
        if any(isinstance(inner, str) and " " in inner.strip() for inner in around.values()):
            records = [around, *records]
    return record_blocks(records)


def record_blocks(records: Iterable[Any]) -> Iterator[TextBlock]:
    """A block per record. A text of its own is kept as it is, below its title; of other records,
    every value is a line, and the first text is the title."""
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            record = {"value": record}
        flat = {key: value for key, value in _flat(record) if value}
        by_name = {key.casefold(): key for key in flat}
        body = next((by_name[key] for key in _TEXT if key in by_name), None)
        head = next((by_name[key] for key in _TITLE if key in by_name), None)
        title = flat[head] if head else ""
        rest = {k: v for k, v in flat.items() if k != body and (k != head or body is None)}
        if body is not None:
            rest = {k: v for k, v in rest.items() if k not in ("id", "_id", "url")}
        elif not title:
            title = next((v for v in flat.values() if not _is_number(v)), "")
        lines = ([flat[body]] if body else []) + [f"{key}: {value}" for key, value in rest.items()]
        if lines:
            yield TextBlock(number, " ".join(title.split())[:200], "\n".join(lines))


def _lines_of(text: str, error: ValueError) -> Iterator[Any]:
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            shown = error if number == 1 or len(lines) == 1 else f"row {number} is broken"
            raise Unreadable(f"not valid JSON: {shown}") from None


def _flat(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > _DEPTH:
        raise Unreadable("JSON nested too deeply")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(v, (Mapping, list)) for v in value):
        for number, inner in enumerate(value, 1):
            yield from _flat(inner, f"{path}.{number}" if path else str(number), depth + 1)
    elif isinstance(value, list):
        yield path, ", ".join(_shown(v) for v in value)
    elif value is not None:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("+-").isdigit()
