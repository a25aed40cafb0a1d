"""The leaderboard as Markdown: a line a set, then a table a set, and the commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from searchgym.cards import cards
from searchgym.scoring.metrics import label
from searchgym.text import printable
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
        head = ["method", *(label(metric) for metric in shown), "questions", "seeds", "date",
                "version", "run"]  # fmt: skip
        lines = [f"### {_text(name)}", "", _line(head), "|" + "---|" * len(head)]
        for row in here:
            about = [str(row.seeds), row.date or "–", row.version, row.run]
            asked = f"{row.questions:,}"
            if (row.questions, row.version) != (here[0].questions, here[0].version):
                asked += " †"
            lines.append(_line([
                _text(row.method) + (" (ceiling)" if row.ceiling else ""),
                *(_bounds(row, metric, places) for metric, places in shown.items()),
                f"{asked}{f' ({_text(row.note)})' if row.note else ''}",
                *map(_text, about),
            ]))  # fmt: skip
        parts.append("\n".join(lines))
    commands = {row.run: row.command for row in rows if row.command}
    told = [f"**{_text(r)}**\n\n```\n{command}\n```" for r, command in sorted(commands.items())]
    return "\n\n".join([*parts, "### Commands", *told]) + "\n"


def _kind(name: str) -> tuple[int, str]:
    """Sort key of a set: real sets, then environments, then rungs of ladders."""
    own = cards("corpora").get(name)
    real = own is not None and own.body["kind"] == "real"
    return (0 if real else 1 if name in cards("envs") else 2, name.casefold())


def _summary(rows: Sequence[Entry], sets: Sequence[str]) -> str:
    """A line a set: the best mean, the rules' and the ceiling, each with its questions."""
    head = ["set", "metric", "best mean", "method", "rules", "oracle (ceiling)"]
    lines = [_line(head), "|" + "---|" * len(head)]
    for name in sets:
        here = [row for row in rows if row.set == name]
        methods = [r for r in here if not r.ceiling and r.verified and r.metric in r.scores]
        rules = next((r for r in methods if r.method == "rules"), None)
        ceiling = next((r for r in here if r.ceiling), None)
        cells = [f"{_bounds(r, r.metric, 2)}, n = {r.questions:,}" if r else "–"
                 for r in (methods[0] if methods else None, rules, ceiling)]  # fmt: skip
        method = _text(methods[0].method) if methods else "–"
        lines.append(_line([_text(name), label(here[0].metric), cells[0], method, *cells[1:]]))
    return "\n".join(lines)


_PLACES = {"reward": 3, "f1": 3, "em": 3, "evidence_recall": 2, "searches": 2}


def _bounds(row: Entry, metric: str, places: int) -> str:
    """A mean and its interval, or a dash."""
    return format(row.scores[metric], f".{places}f") if metric in row.scores else "–"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(text: str) -> str:
    """A name of somebody's, to be read as it is: nothing in it is Markdown or HTML."""
    return re.sub(r"([\\`*\[\]|])", r"\\\1", escape(printable(text), quote=False))
