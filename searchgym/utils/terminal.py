"""Tables on a terminal, in which no word is broken and nothing is cut off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..text import printable

if TYPE_CHECKING:
    from rich.console import Console


def print_cells(
    out: Console,
    title: str,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    bold: Collection[str] = (),
    width: int | None = None,
    split: bool = False,
) -> None:
    """Print a table. Rows whose longest words do not fit side by side are printed one below the
    other, a line a column; or, with ``split``, as several tables that begin with the first column.

    Args:
        out: Where to print.
        title: Line above the table.
        names: Heads of the columns.
        rows: Text of every cell.
        right: Columns that stand on the right.
        bold: Columns in bold.
        width: Widest table; the console's by default.
        split: Whether columns may stand in several tables.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    total = min(width or out.width, out.width)
    columns = list(zip(names, *rows, strict=True))
    blocks: list[list[tuple[str, ...]]] = [columns]
    if split:
        blocks = [columns[:1]]
        for column in columns[1:]:
            if len(blocks[-1]) > 1 and _widths([*blocks[-1], column], total, whole=True) is None:
                blocks.append(columns[:1])
            blocks[-1] = [*blocks[-1], column]
    for block in blocks:
        out.print(f"[bold]{escape(printable(title))}[/bold]")  # its own title is folded
        widths = _widths(block, total)
        if widths is None:
            for first, *others in list(zip(*block, strict=True))[1:]:
                out.print(f"\n {escape(first)}")
                heads = [column[0] for column in block[1:]]
                print_pairs(out, dict(zip(heads, others, strict=True)), indent=2)
            continue
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
        for (name, *_), wide in zip(block, widths, strict=True):
            table.add_column(
                escape(printable(name)), justify="right" if name in right else "left", width=wide,
                style="bold" if name in bold else "",
            )  # fmt: skip
        for row in list(zip(*block, strict=True))[1:]:
            table.add_row(*map(escape, row))
        out.print(table)


def print_pairs(out: Console, pairs: Mapping[str, str], indent: int = 0) -> None:
    """Print names and texts, one pair a line."""
    from rich.markup import escape
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in pairs.items():
        grid.add_row(" " * indent + escape(printable(name)), escape(text))
    out.print(grid)


def _widths(
    columns: Sequence[Sequence[str]], total: int, *, whole: bool = False
) -> list[int] | None:
    """Widths of a table's columns within ``total``, no word broken (``whole``: no line, but for
    those of the heads and the first column); None where there are none. Narrow columns get what
    they need first, so that the long texts are what wraps."""
    from rich.cells import cell_len

    def longest(text: str, lines: bool = False) -> int:
        return max(map(cell_len, text.split("\n") if lines else text.split()), default=1)

    widths = [
        max(longest(text, lines=whole and place > 0 and row > 0) for row, text in enumerate(column))
        for place, column in enumerate(columns)
    ]
    spare = total - sum(widths) - _GAP * len(widths)
    if spare < 0:
        return None
    wanted = [max(longest(text, lines=True) for text in column) for column in columns]
    for place in sorted(range(len(widths)), key=lambda i: wanted[i] - widths[i]):
        more = min(wanted[place] - widths[place], spare)
        widths[place] += more
        spare -= more
    return widths


_GAP = 3
"""Columns between two cells of a table."""
