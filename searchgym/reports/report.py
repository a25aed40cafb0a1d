"""Parts of a report: a summary, warnings, and sections of tables and figures; names of agents, and
the episodes behind numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from ..charts.figure import Figure, Row
from ..charts.forest import forest
from ..charts.palette import CLOSED
from ..evaluation.result import EvalResult
from ..evaluation.table import ANCHOR, NONE, Column, Command, Link, ResultTable
from .sources import Run


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    title: str
    rows: tuple[tuple[str, str], ...]
    folded: bool = True
    """True if pages show them on demand only."""


Block = Figure | ResultTable | Facts


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
    summary: tuple[str, ...]
    """Sentences, the most important first."""
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    alarm: str = ""
    """Reason why the run is good for nothing, such as that nothing was learnt."""
    sources: tuple[str, ...] = ()
    """The folders it was made from."""

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(b for b in self._blocks() if isinstance(b, Figure))

    @cached_property
    def tables(self) -> tuple[ResultTable, ...]:
        return tuple(b for b in self._blocks() if isinstance(b, ResultTable))

    def _blocks(self) -> Iterator[Block]:
        return (block for section in self.sections for block in section.blocks)


def facts_of(title: str, *settings: Mapping[str, Any]) -> Facts:
    """Nested settings as dotted names; a value in which several differ is shown for each."""
    flat = [dict(flattened(f)) for f in settings]
    rows = []
    for name in dict.fromkeys(n for f in flat for n in f):
        values = dict.fromkeys(f.get(name, NONE) for f in flat)
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


def run_facts(runs: Sequence[Run], versions: Sequence[Mapping[str, Any]] = ()) -> list[Block]:
    """The machines of runs, versions, and the folders they were read from."""
    blocks: list[Block] = []
    seen: list[Mapping[str, Any]] = []
    for run in runs:
        if run.machine and run.machine not in seen:
            seen.append(run.machine)
            told = {k: v for k, v in run.machine.items() if k != "versions"}
            blocks.append(facts_of("Machine", told))
    if versions:
        blocks.append(facts_of("Versions", *versions))
    return [*blocks, Facts("Folders", tuple((run.name, str(run.path)) for run in runs))]


def differing_table(
    names: Iterable[str], settings: Mapping[str, Mapping[str, str]], note: str
) -> ResultTable:
    """The named settings, a column for each agent or run."""
    rows = tuple({"setting": n, **{a: s.get(n, NONE) for a, s in settings.items()}} for n in names)
    columns = (Column("setting", "setting"), *(Column(name, name) for name in settings))
    return ResultTable("differing", "Settings that differ", columns, rows, note)


def forest_figure(
    name: str, title: str, caption: str, marks: Sequence[Row], by: Sequence[str], x_title: str, *,
    alt: str = "", seeds: Sequence[Row] = (), **options: Any,
) -> Figure:  # fmt: skip
    """A chart of marks with intervals (:func:`searchgym.charts.forest.forest`), its data and, after
    ``alt``, all its numbers in words."""
    sign = "+" if options.get("zero") == 0 else ""
    told = [
        f"{m['by']}, {m['y']}: {m['mean']:{sign}z.2f}" if m["by"] != m["y"] else
        f"{m['by']}{', ' + m['facet'] if m.get('facet') else ''}: {m['mean']:{sign}z.2f}"
        for m in marks
    ]  # fmt: skip
    drawn = partial(forest, marks, seeds, by=by, x_title=x_title, **options)
    return Figure(
        name, title, caption, f"{alt} {'; '.join(told)}.".lstrip(), drawn, (*marks, *seeds)
    )


# --- names -------------------------------------------------------------------------------------
_FOLDERS = ("agents", "model", "models", "checkpoints")
"""Folders that runs keep weights in, and whose names say nothing."""


def short_name(agent: str) -> str:
    """Return what an agent is called in charts: of weights, the run's folder and the file's stem
    (``runs/cand/agents/seed-0.safetensors``: ``cand/seed-0``); of a model's folder, the run's."""
    path = PurePath(agent)
    if len(path.parts) < 2 or ":" in agent:
        return agent
    kept = [part for part in path.with_suffix("").parts if part not in _FOLDERS]
    if path.suffix != ".safetensors":
        kept = [part for part in path.parts if part not in _FOLDERS][-1:]
    return "/".join(kept[-2:]) or agent


def closed_book(result: EvalResult) -> bool:
    """Return whether it was played without any tool."""
    return not result.settings.get("search_enabled", True)


def named(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Results with names that tell them apart: short ones; where these are equal, the names that
    were given; of equal ones the set is added, then a number."""
    ends = [CLOSED if closed_book(r) else "" for r in results]
    own = [r.agent for r in results]
    for names in (
        [short_name(name) for name in own],
        own,
        [f"{name} ({r.set})" for name, r in zip(own, results, strict=True)],
        [f"{name} #{i}" for i, name in enumerate(own, 1)],
    ):
        full = [name + end for name, end in zip(names, ends, strict=True)]
        if len(set(full)) == len(full):
            return [replace(r, agent=n) for r, n in zip(results, full, strict=True)]
    raise AssertionError("numbers differ")  # pragma: no cover


def quoted(name: str) -> str:
    """Return a name as sentences show it: in quotes where it holds a comma."""
    return f"“{name}”" if "," in name or ";" in name else name


def percent(share: float) -> str:
    """Return a share as sentences show it: "46 %"."""
    return f"{100 * share:.0f} %"


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


# --- episodes behind numbers --------------------------------------------------------------------
Where = Mapping[str, str]
"""Filter of episodes, as ``searchgym view --where`` takes it."""


class ShownEpisodes(NamedTuple):
    """Number of the episodes that fit a filter, and addresses of three of them."""

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
        tests = " ".join(f"--where {shlex.quote(f'{k}={v}')}" for k, v in self.where.items())
        return f"searchgym view {shlex.quote(str(self.run))} {tests}".rstrip()


def anchor(*name: str) -> str:
    """Return the address of a row of the table, within its page."""
    return "episodes-" + re.sub(r"\W+", "-", "-".join(name).lower()).strip("-")


def episodes_section(
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
    table = ResultTable(
        "episodes", "The episodes behind the numbers",
        (*(Column(c, c) for c in columns), Column("episodes", "episodes"),
         *(Column(k, k) for k in ("best", "typical", "worst")), Column("command", "all of them")),
        tuple(rows),
        "By reward, of equal ones the shorter first; typical: the middle one.", folded=True,
    )  # fmt: skip
    return Section(title, "", (table,))
