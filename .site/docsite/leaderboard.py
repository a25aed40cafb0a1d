"""The leaderboard as Markdown: a line a set, then a table a set, and the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from searchgym.cards import cards
from searchgym.evaluation.table import Column, ResultTable
from searchgym.scoring.metrics import label
from searchgym.text import unmarked
from searchgym_agents.leaderboard.entries import Entry, entries, ordered


def markdown(rows: Sequence[Entry] | None = None) -> str:
    """The leaderboard as Markdown for the documentation: a line a set, then a table a set, the best
    method first and what is told the gold queries last, and the command that repeats each run."""
    rows = ordered(entries() if rows is None else rows)
    sets = sorted(dict.fromkeys(row.set for row in rows), key=_kind)
    parts = [_summary(rows, sets)]
    for name in sets:
        here = [row for row in rows if row.set == name]
        shown = {metric: places for metric, places in _PLACES.items()
                 if metric != "reward" or here[0].metric == metric}  # fmt: skip
        columns = (
            Column("method", "method"), *(Column(m, label(m), n) for m, n in shown.items()),
            *(Column(name, name) for name in ("questions", "seeds", "date", "version", "run")),
        )  # fmt: skip
        lines: list[dict[str, Any]] = []
        for row in here:
            asked = f"{row.questions:,}"
            if (row.questions, row.version) != (here[0].questions, here[0].version):
                asked += " †"
            lines.append({
                **row._asdict(), **row.scores,
                "method": row.method + (" (ceiling)" if row.ceiling else ""),
                "questions": f"{asked}{f' ({row.note})' if row.note else ''}",
            })  # fmt: skip
        parts.append(
            f"### {unmarked(name)}\n\n{ResultTable('', '', columns, tuple(lines)).markdown()}"
        )
    commands = {row.run: row.command for row in rows if row.command}
    told = [f"**{unmarked(r)}**\n\n```\n{command}\n```" for r, command in sorted(commands.items())]
    return "\n\n".join([*parts, "### Commands", *told]) + "\n"


def _kind(name: str) -> tuple[int, str]:
    """Sort key of a set: real sets, then environments, then rungs of ladders."""
    own = cards("corpora").get(name)
    real = own is not None and own.body["kind"] == "real"
    return (0 if real else 1 if name in cards("envs") else 2, name.casefold())


def _summary(rows: Sequence[Entry], sets: Sequence[str]) -> str:
    """A line a set: the best mean, the rules' and the ceiling, each with its questions."""
    head = ("set", "metric", "best mean", "method", "rules", "oracle (ceiling)")
    told = []
    for name in sets:
        here = [row for row in rows if row.set == name]
        methods = [r for r in here if not r.ceiling and r.verified and r.metric in r.scores]
        rules = next((r for r in methods if r.method == "rules"), None)
        ceiling = next((r for r in here if r.ceiling), None)
        best = methods[0] if methods else None
        means = [r and f"{Column('', '', 2).text(r.scores.get(r.metric))}, n = {r.questions:,}"
                 for r in (best, rules, ceiling)]  # fmt: skip
        cells = (name, label(here[0].metric), means[0], best and best.method, *means[1:])
        told.append(dict(zip(head, cells, strict=True)))
    columns = tuple(Column(name, name) for name in head)
    return ResultTable("", "", columns, tuple(told)).markdown()


_PLACES = {"reward": 3, "f1": 3, "em": 3, "evidence_recall": 2, "searches": 2}
