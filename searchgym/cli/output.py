"""Output of commands: tables for people, JSON for scripts, progress on stderr."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..plugins import is_shipped
from ..text import printable
from ..utils.terminal import print_cells, print_pairs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Row = Mapping[str, Any]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
PIPED_WIDTH = 160


def examples(*commands: str) -> str:
    """The closing lines of a help page, an example a line."""
    shown = [command.replace("[", r"\[") for command in commands]
    return "\n".join(["[bold]Examples[/bold]", *(f"  $ {command}" for command in shown)])


def with_examples(*commands: str) -> Callable[[Any], Any]:
    """Give a command the closing lines of its help page, an example a line."""

    def mark(command: Any) -> Any:
        command.epilog = examples(*commands)
        return command

    return mark


def console(*, stderr: bool = False) -> Console:
    """A rich console; piped output is not squeezed into 80 columns."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, emoji=False)


def say(text: str) -> None:
    """A line to the person, beside the output a script reads; broken between words where a terminal
    ends."""
    if sys.stderr.isatty() or os.environ.get("COLUMNS"):
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            for line in text.split("\n")
        )
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def typed_line(prompt: str) -> str | None:
    """The next line a person typed, or that was piped in; None at the end of the input."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input(prompt)
    except EOFError:
        return None


def print_anything() -> None:
    """Let the output take every text: what its encoding has no bytes for, such as half of a pair of
    surrogates in a passage, is written as JSON does, ``\\ud800``."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def plain_warnings() -> None:
    """Show SearchGym's own warnings as what they say, each time; others as Python does."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **named: Any) -> None:
        if is_shipped(category.__module__):
            say(f"warning: {message}")
        else:
            usual(message, category, *place, **named)

    warnings.showwarning = show


def print_json(value: Any) -> None:
    """One JSON document; NaN becomes null, because JSON has none."""
    print(json.dumps(plain(value), ensure_ascii=False, indent=2))


def plain(value: Any) -> Any:
    """JSON values: tuples and arrays become lists, NumPy scalars numbers, NaN null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def print_table(title: str, rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """Rows as a table; columns are the first row's keys unless named. Words are never broken
    (:func:`searchgym.utils.terminal.print_cells`)."""
    names = list(columns or (rows[0] if rows else ()))
    right = {n for n in names if all(isinstance(r.get(n), (int, float)) for r in rows)}
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    print_cells(console(), title, names, cells, right=right)


def print_results(
    title: str, rows: Sequence[Row], digits: int = 2, signed: Sequence[str] = ()
) -> None:
    """A table of results, intervals in its cells; nothing where there are no rows.

    Args:
        title: Line above it.
        rows: Values by column.
        digits: Digits after the point.
        signed: Columns that show a plus.
    """
    from ..evaluation.table import Column, ResultTable

    names = dict.fromkeys(name for row in rows for name in row)
    columns = tuple(Column(name, name, digits, name in signed) for name in names)
    if rows:
        ResultTable("", title, columns, tuple(rows)).print(console())


def print_lines(rows: Sequence[tuple[str, str]]) -> None:
    """Names and what each is, one pair a line; what is too long for the line ends in "…" after a
    whole word."""
    out = console()
    wide = max(map(len, (name for name, _ in rows)), default=0)
    for name, about in rows:
        out.print(f"  {name:<{wide}}  {cut(about, out.width - wide - 4)}", markup=False)


def cut(text: str, width: int) -> str:
    """Return ``text`` where it fits into ``width`` columns, else its first whole words and "…"."""
    import textwrap

    return textwrap.shorten(text, max(width, 1), placeholder=" …")


def summary(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    paragraph = " ".join((thing.__doc__ or "").strip().split("\n\n")[0].split())
    return paragraph.rstrip(".")


def print_facts(title: str, facts: Row, as_json: bool = False) -> None:
    """Names and values, one pair a line; or as JSON."""
    if as_json:
        print_json(facts)
        return
    from rich.markup import escape

    out = console()
    if title:
        out.print(f"[bold]{escape(printable(title))}[/bold]")
    print_pairs(out, {name: cell(value) for name, value in facts.items()})


def print_markdown(text: str) -> None:
    """Markdown as the terminal can show it; images and raw HTML are left out."""
    from rich.markdown import Markdown

    console().print(Markdown(text, hyperlinks=False))


def cell(value: Any) -> str:
    """A value as a table shows it, on lines of its own; nothing in it commands the terminal."""
    return "\n".join(map(printable, _cell(value).split("\n")))


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:z.3f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_inner, value)) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={_inner(v)}" for k, v in value.items()) or "–"
    return str(value)


def _inner(value: Any) -> str:
    """Write an element of a list or table: what has parts itself stands in braces."""
    if isinstance(value, (list, tuple, Mapping)):
        return f"{{{cell(value)}}}"
    if isinstance(value, float):  # an option: as it was given
        return f"{value:g}"
    return cell(value) if isinstance(value, bool) else str(value)


def counted(number: int, one: str, more: str = "") -> str:
    """``counted(1, "query", "queries")`` is "1 query"; without ``more`` an s is added."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


class ProgressBar:
    """A progress bar: called with how many more are done."""

    def __init__(self, shown: Progress, label: str, total: int | None, unit: str) -> None:
        self._shown, self._done = shown, 0
        self._task = shown.add_task(label, total=total, unit=unit)

    def __call__(self, n: int) -> None:
        self._done += n
        self._shown.advance(self._task, n)

    def to(self, count: int) -> None:
        """Show that ``count`` are done, those before included."""
        self(count - self._done)

    def stage(self, label: str, total: int, unit: str) -> None:
        """Begin the next stage of the work, counted from 0."""
        self._done = 0
        self._shown.reset(self._task, description=label, total=total, unit=unit)


@contextmanager
def progress(label: str, total: int | None = None, unit: str = "") -> Iterator[ProgressBar]:
    """A progress bar on the error channel; yields ``advance(n)``. Without a terminal, a line now
    and then.

    ``label``: the stage ("training"); ``unit``: what is counted ("steps").
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from ..utils.progress import LineProgress

    shown = LineProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeRemainingColumn(),
        console=console(stderr=True),
    )
    with shown:
        yield ProgressBar(shown, label, total, unit)


@contextmanager
def working(label: str) -> Iterator[None]:
    """A spinner on the error channel around work of unknown length; without a terminal, its label
    once it takes long."""
    from rich.text import Text

    out = console(stderr=True)
    if not out.is_terminal:
        from ..utils.progress import told_later

        later = told_later(label)
        try:
            yield
        finally:
            later.cancel()
        return
    with out.status(Text(label)):  # a name's brackets and colons are no markup
        yield
