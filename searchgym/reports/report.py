"""Parts of a report: a summary, warnings, and sections of tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from ..charts.figure import Figure, to_csv
from ..evaluation.intervals import Interval


class Seeds(NamedTuple):
    """Means of single seeds, shown in place of an interval where they are too few for one."""

    each: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.each)


class Link(NamedTuple):
    """A text that leads somewhere, in a cell of a table."""

    text: str
    address: str


class Command(NamedTuple):
    """A command line, in a cell of a table."""

    text: str


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
        if isinstance(value, (Interval, Seeds)):
            number, beside = self.parts(value)
            return f"{number} {beside}"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:{sign},}"
        if isinstance(value, float):
            return f"{value:{sign},.{digits}f}"
        return str(value.text if isinstance(value, (Link, Command)) else value)

    def parts(self, value: Interval | Seeds) -> tuple[str, str]:
        """Mean, and interval or single seeds, as they are shown."""
        digits = 3 if self.digits is None else self.digits
        form = f"{'+' if self.signed else ''},.{digits if abs(value.mean) < 100 else 0}f"
        if isinstance(value, Seeds):
            return format(value.mean, form), f"({', '.join(format(v, form) for v in value.each)})"
        return format(value.mean, form), f"[{value.low:{form}}, {value.high:{form}}]"

    @staticmethod
    def order(value: Any) -> str:
        """Return the key that the column is sorted by."""
        if isinstance(value, (Interval, Seeds)):
            return repr(value.mean)
        if isinstance(value, (int, float)):
            return repr(float(value))
        if isinstance(value, (Link, Command)):
            return value.text
        return "" if value is None else str(value)


LINKS, ANCHOR = "_links", "_anchor"
"""Keys of a row: addresses by column, and the name by which others link to the row."""


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
                if isinstance(value, (Interval, Seeds)):
                    low, high = value[1:3] if isinstance(value, Interval) else ("", "")
                    out |= {
                        column.key: value.mean, f"{column.key}_low": low,
                        f"{column.key}_high": high,
                    }  # fmt: skip
                elif isinstance(value, (Link, Command)):
                    out[column.key] = value[-1]
                else:
                    out[column.key] = value
            flat.append(out)
        return to_csv(flat)

    def within(self, tag: str) -> Table:
        """Return the table with its links and anchors as those of one set among several."""

        def moved(row: Mapping[str, Any]) -> Mapping[str, Any]:
            out = dict(row)
            if LINKS in row:
                out[LINKS] = {k: f"#{tag}-{v[1:]}" for k, v in row[LINKS].items()}
            if ANCHOR in row:
                out[ANCHOR] = f"{tag}-{row[ANCHOR]}"
            return out

        return replace(self, rows=tuple(moved(row) for row in self.rows))

    def number(self, column: Column) -> bool:
        """Return whether a column holds numbers, which stand on the right."""
        values = [r.get(column.key) for r in self.rows]
        known = [v for v in values if v is not None]
        return bool(known) and all(isinstance(v, (int, float, Interval, Seeds)) for v in known)


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    title: str
    rows: tuple[tuple[str, str], ...]
    folded: bool = True
    """True if pages show them on demand only."""


Block = Figure | Table | Facts


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two, and what belongs to it."""

    title: str
    intro: str
    blocks: tuple[Block, ...]
    link: str | None = None
    """Name in the page's bar; "": it has none there. None: the title."""

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
    alarm: str = ""
    """Reason why the run is good for nothing, such as that nothing was learnt."""
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


def facts_of(title: str, *settings: Mapping[str, Any]) -> Facts:
    """Nested settings as dotted names; a value in which several differ is shown for each."""
    flat = [dict(flattened(f)) for f in settings]
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
    if isinstance(value, Sequence) and not isinstance(value, str):
        # a tool is written as name, description and parameters, of which the name says enough
        return _word(value[0]) if value else "none"
    return str(value)
