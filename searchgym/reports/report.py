"""Parts of a report: a summary, warnings, and sections of tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from .figure import Figure, to_csv


class Quantity(NamedTuple):
    """A mean and its 95 % interval, in a cell of a table."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Any) -> Quantity | None:
        """Make one from anything with ``mean``, ``low`` and ``high``, or a mapping of them; None
        where there is none."""
        if found is None:
            return None
        if not isinstance(found, Mapping):
            found = {"mean": found.mean, "low": found.low, "high": found.high}
        values = [found.get(name) for name in cls._fields]
        if any(v is None or not math.isfinite(v) for v in values):
            return None
        return cls(*(float(v) for v in values))


class Column(NamedTuple):
    """``key`` in the rows, ``label`` for people, digits after the point (``+`` first: signed)."""

    key: str
    label: str
    digits: int | None = None
    signed: bool = False

    def text(self, value: Any) -> str:
        """A cell as it is shown."""
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            return "–"
        sign, digits = "+" if self.signed else "", 3 if self.digits is None else self.digits
        if isinstance(value, Quantity):
            low, high = (f"{v:{sign}.{digits}f}" for v in value[1:])
            return f"{value.mean:{sign}.{digits}f} [{low}, {high}]"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:{sign},}"
        if isinstance(value, float):
            return f"{value:{sign},.{digits}f}"
        return str(value)

    @staticmethod
    def order(value: Any) -> str:
        """Return the key that the column is sorted by."""
        if isinstance(value, Quantity):
            return repr(value.mean)
        if isinstance(value, (int, float)):
            return repr(float(value))
        return "" if value is None else str(value)


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    note: str = ""
    """Explanation of how to read the table."""
    strong: str = ""
    """Rows that hold this value anywhere are set in bold."""
    folded: bool = False
    """True if pages show it on demand only, as is best for long tables."""

    def csv(self) -> str:
        """Write the table as CSV; an estimate becomes three columns."""
        flat = []
        for row in self.rows:
            out: dict[str, Any] = {}
            for column in self.columns:
                value = row.get(column.key)
                if isinstance(value, Quantity):
                    out |= {
                        column.key: value.mean,
                        f"{column.key}_low": value.low,
                        f"{column.key}_high": value.high,
                    }
                else:
                    out[column.key] = value
            flat.append(out)
        return to_csv(flat)

    def number(self, column: Column) -> bool:
        """Return whether a column holds numbers, which stand on the right."""
        values = [r.get(column.key) for r in self.rows]
        known = [v for v in values if v is not None]
        return bool(known) and all(isinstance(v, (int, float, Quantity)) for v in known)


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    title: str
    rows: tuple[tuple[str, str], ...]


Block = Figure | Table | Facts


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two, and what belongs to it."""

    title: str
    intro: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


@dataclass(frozen=True)
class Report:
    """Contents of a report page, in order."""

    title: str
    kind: str
    """Kind of run, in words."""
    summary: tuple[str, ...]
    """Sentences, the most important first."""
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=())
    """The folders it was made from."""

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(b for b in self._blocks() if isinstance(b, Figure))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(b for b in self._blocks() if isinstance(b, Table))

    def _blocks(self) -> Iterator[Block]:
        return (block for section in self.sections for block in section.blocks)


def facts_of(title: str, *found: Mapping[str, Any]) -> Facts:
    """Nested settings as dotted names; a value in which several differ is shown for each."""
    flat = [dict(flattened(f)) for f in found]
    rows = []
    for name in dict.fromkeys(n for f in flat for n in f):
        values = dict.fromkeys(f.get(name, "–") for f in flat)
        rows.append((name, " · ".join(values)))
    return Facts(title, tuple(rows))


def flattened(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted name and value, as text, of everything in nested mappings."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flattened(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield prefix, ", ".join(_word(v) for v in value) or "none"
    else:
        yield prefix, _word(value)


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_word(v)}" for k, v in value.items()) or "none"
    return str(value)
