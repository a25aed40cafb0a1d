"""Episodes behind the numbers: which to show for a number, and the table that leads to them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .report import ANCHOR, Column, Command, Link, Section, Table

Where = Mapping[str, str]
"""Filter of episodes, as ``searchgym view --where`` takes it."""


class ShownEpisodes(NamedTuple):
    """Addresses of three episodes among those that fit a filter."""

    episodes: int
    best: str
    typical: str
    worst: str


Opener = Callable[[Path, Sequence[Where]], Sequence[ShownEpisodes | None]]
"""Function that writes the episodes of a run (a folder or file) which fit each filter into a page,
and returns where they are; None where none fits. ``DataError``: the run keeps no episodes."""


@dataclass(frozen=True)
class Behind:
    """A number, or several, and the episodes that it is a mean over."""

    name: tuple[str, ...]
    """Cells that say what they are, such as agent and family."""
    run: Path
    where: Where

    @property
    def anchor(self) -> str:
        return anchor(*self.name)

    @property
    def command(self) -> str:
        """The command that shows all of them."""
        tests = " ".join(f"--where {shlex.quote(f'{k}={v}')}" for k, v in self.where.items())
        return f"searchgym view {shlex.quote(str(self.run))} {tests}".rstrip()


def anchor(*name: str) -> str:
    """Return the address of a row of the table, within its page."""
    return "episodes-" + re.sub(r"\W+", "-", "-".join(name).lower()).strip("-")


def section(
    numbers: Sequence[Behind],
    columns: Sequence[str],
    opener: Opener | None,
    title: str = "Episodes",
) -> Section | None:
    """The table of episodes: best, typical and worst, and the command for all; None without any.

    Raises:
        DataError: see ``Opener``.
    """
    if not numbers or opener is None:
        return None
    rows: list[dict[str, Any]] = []
    for run in dict.fromkeys(b.run for b in numbers):
        own = [b for b in numbers if b.run == run]
        for behind, chosen in zip(own, opener(run, [b.where for b in own]), strict=True):
            if chosen is None:
                continue
            links = {k: Link(k, getattr(chosen, k)) for k in ("best", "typical", "worst")}
            rows.append({
                ANCHOR: behind.anchor, **dict(zip(columns, behind.name, strict=True)),
                "episodes": chosen.episodes, **links, "command": Command(behind.command),
            })  # fmt: skip
    if not rows:
        return None
    table = Table(
        "episodes", "The episodes behind the numbers",
        (*(Column(c, c) for c in columns), Column("episodes", "episodes"),
         *(Column(k, k) for k in ("best", "typical", "worst")), Column("command", "all of them")),
        tuple(rows),
        "By reward, of equal ones the shorter first; typical: the middle one.", folded=True,
    )  # fmt: skip
    return Section(title, "", (table,))
