"""Results as a table: rows, columns with labels and digits, intervals in the cells; written as
text for terminals, as HTML for notebooks, as CSV, and as marks for charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import MissingExtraError
from ..text import printable, unmarked
from ..utils.terminal import print_cells
from .intervals import Interval
from .metrics import limits

if TYPE_CHECKING:
    import pandas
    from rich.console import Console

Record = Mapping[str, Any]
NONE = "–"
"""Cell without a value."""
LINKS, ANCHOR = "_links", "_anchor"
"""Keys of a row: addresses by column, and the name by which others link to the row."""


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
    """``key`` in the rows, ``label`` for people, digits after the point, and whether + is shown."""

    key: str
    label: str
    digits: int | None = None
    signed: bool = False
    strong: bool = False
    """True if a terminal shows the column in bold."""

    def text(self, value: Any) -> str:
        """A cell as it is shown."""
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            return NONE
        if isinstance(value, (Interval, Seeds)):
            return " ".join(self.parts(value)).rstrip()
        if isinstance(value, bool):
            return "yes" if value else "no"
        sign = "+" if self.signed else ""
        if isinstance(value, int):
            return f"{value:{sign},}"
        if isinstance(value, float):
            return f"{value:{sign}z,.{3 if self.digits is None else self.digits}f}"
        return str(value.text if isinstance(value, (Link, Command)) else value)

    def parts(self, value: Interval | Seeds) -> tuple[str, str]:
        """Mean, and interval or single seeds, as they are shown; a dash without questions."""
        if isinstance(value, Interval) and math.isnan(value.mean):
            return NONE, ""
        digits = 3 if self.digits is None else self.digits
        form = f"{'+' if self.signed else ''}z,.{digits if abs(value.mean) < 100 else 0}f"
        if isinstance(value, Seeds):
            return format(value.mean, form), f"({', '.join(format(v, form) for v in value.each)})"
        return format(value.mean, form), f"[{value.low:{form}}, {value.high:{form}}]"

    @staticmethod
    def order(value: Any) -> str:
        """The key that the column is sorted by."""
        if isinstance(value, (Interval, Seeds)):
            return repr(value.mean)
        if isinstance(value, (int, float)):
            return repr(float(value))
        if isinstance(value, (Link, Command)):
            return value.text
        return "" if value is None else str(value)


@dataclass(frozen=True)
class ResultTable:
    """Rows with named columns."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Record, ...]
    note: str = ""
    """Explanation of how to read the table."""
    strong: str = ""
    """Rows that hold this value anywhere are set in bold."""
    folded: bool = False
    """True if pages show it on demand only, as is best for long tables."""

    def print(self, out: Console, width: int | None = None, *, split: bool = False) -> None:
        """Print the table on a terminal; see :func:`searchgym.utils.terminal.print_cells`."""

        def text(column: Column, value: Any) -> str:
            told = column.text(value)  # the ends of an interval stay on one line
            return printable(told.replace(", ", ",") if isinstance(value, Interval) else told)

        cells = [[text(c, row.get(c.key)) for c in self.columns] for row in self.rows]
        labels = [column.label for column in self.columns]
        bold = {column.label for column in self.columns if column.strong}
        right = {column.label for column in self.columns if self.number(column)} | bold
        print_cells(
            out, self.title, labels, cells, right=right, bold=bold, width=width, split=split
        )

    def html(self) -> str:
        """A table for notebooks, every text escaped; the first column is to the left."""
        head = "".join(f"<th>{escape(c.label)}</th>" for c in self.columns)
        body = "".join(
            "<tr>" + "".join(
                f'<td style="text-align:{"right" if i else "left"}">{escape(text)}</td>'
                for i, text in enumerate(c.text(row.get(c.key)) for c in self.columns)
            ) + "</tr>" for row in self.rows
        )  # fmt: skip
        return (
            f'<table><caption style="text-align:left">{escape(f"{self.title}{self.note}")}'
            f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def markdown(self) -> str:
        """A table for the pages of a documentation, in whose texts nothing is markup."""

        def text(column: Column, value: Any) -> str:
            told = column.text(value)
            return unmarked(told) if isinstance(value, str) else told

        rows = [[text(c, row.get(c.key)) for c in self.columns] for row in self.rows]
        head, *lines = (f"| {' | '.join(r)} |" for r in ([c.label for c in self.columns], *rows))
        return "\n".join([head, "|" + "---|" * len(self.columns), *lines])

    def csv(self) -> str:
        """The table as CSV; an estimate becomes three columns."""
        flat = []
        for row in self.rows:
            out: dict[str, Any] = {}
            for key in (column.key for column in self.columns):
                value = row.get(key)
                if isinstance(value, (Interval, Seeds)):
                    low, high = value[1:3] if isinstance(value, Interval) else ("", "")
                    out |= {key: value.mean, f"{key}_low": low, f"{key}_high": high}
                else:
                    out[key] = value[-1] if isinstance(value, (Link, Command)) else value
            flat.append(out)
        from ..charts.figure import to_csv

        return to_csv(flat)

    def within(self, tag: str) -> ResultTable:
        """The table with its links and anchors as those of one set among several."""

        def moved(row: Record) -> Record:
            out = dict(row)
            if LINKS in row:
                out[LINKS] = {k: f"#{tag}-{v[1:]}" for k, v in row[LINKS].items()}
            if ANCHOR in row:
                out[ANCHOR] = f"{tag}-{row[ANCHOR]}"
            return out

        return replace(self, rows=tuple(moved(row) for row in self.rows))

    def number(self, column: Column) -> bool:
        """True if a column holds numbers, which stand on the right."""
        known = [v for row in self.rows if (v := row.get(column.key)) is not None]
        return bool(known) and all(isinstance(v, (int, float, Interval, Seeds)) for v in known)


def frame(rows: Iterable[Record]) -> pandas.DataFrame:
    """A data frame with a row for each record; ``MissingExtraError`` without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("a data frame (pandas)", "frames") from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])


def mark(interval: Interval, metric: str, **where: Any) -> dict[str, Any]:
    """A mark of a chart: ``where`` it stands, mean and interval, the latter within what is
    possible for the metric."""
    bounded = interval.within(*limits(metric))
    return {
        **where, "mean": round(interval.mean, 5), "low": round(bounded.low, 5),
        "high": round(bounded.high, 5), "questions": interval.n,
    }  # fmt: skip
