"""The policies of a run: what each came to, and what changed from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .index import Index
from .query import Filter
from .record import OUTCOMES


class Bar(NamedTuple):
    """The episodes of one policy by outcome."""

    agent: str
    step: int | None
    """None: all its steps together."""
    counts: dict[str, int]
    """Outcome → episodes, in the order of :data:`OUTCOMES`; those that occur."""
    total: int
    right: float | None
    """Share of the scored that are right."""


def overview(index: Index, chosen: Filter, most: int = 12) -> list[Bar]:
    """A bar for each policy: the agents, the best first, or, where there is one, its training steps
    (``most`` of them, evenly spread). Of the filters, only open or closed book counts."""
    where, values = Filter(book=chosen.book or ("all" if chosen.agent else "")).where()
    rows = index.rows(
        "SELECT agent, step, outcome, count(*) AS n, max(closed) AS closed FROM episodes "
        f"WHERE {where} GROUP BY agent, step, outcome ORDER BY closed, agent, step",
        values,
    )
    several = len({row["agent"] for row in rows}) > 1
    counts_of: dict[tuple[str, int | None], dict[str, int]] = {}
    for row in rows:
        counts = counts_of.setdefault((row["agent"], None if several else row["step"]), {})
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["n"]
    keys = list(counts_of)
    if several:
        keys.sort(key=lambda key: -counts_of[key].get("right", 0) / sum(counts_of[key].values()))
    if len(keys) > most and not several:
        keys = [keys[round(i * (len(keys) - 1) / (most - 1))] for i in range(most)]
    return [_bar(*key, counts_of[key]) for key in keys[:most]]


def _bar(agent: str, step: int | None, counts: Mapping[str, int]) -> Bar:
    total = sum(counts.values())
    scored = total - counts.get("unscored", 0) - counts.get("lost", 0)
    ordered = {name: counts[name] for name in OUTCOMES if name in counts}
    return Bar(agent, step, ordered, total, counts.get("right", 0) / scored if scored else None)


class Side(NamedTuple):
    """A policy: an agent, at a step of its training where there are several."""

    agent: str
    step: int | None

    def __str__(self) -> str:
        return self.agent if self.step is None else f"{self.agent}, step {self.step:,}"


def sides(index: Index) -> list[Side]:
    """Every policy of a run, those that played closed-book last."""
    rows = index.rows(
        "SELECT agent, step FROM episodes GROUP BY agent, step "
        "ORDER BY max(closed), agent, step LIMIT 1000"
    )
    return [Side(row["agent"], row["step"]) for row in rows]


BARS = frozenset({
    "oracle", "rules", "random", "first-hit", "best-sentence", "majority", "always-yes",
    "always-refuse",
})  # fmt: skip
"""Agents that others are measured against."""


def telling(index: Index) -> tuple[Side, Side]:
    """The comparison that one wants to see first: where there are training steps, the first step
    against the last one; else the agent before its training, or the rules, against the best agent
    that is no mere bar (with bars alone: rules against the best of them)."""
    rows = index.rows(
        "SELECT agent, step, max(closed) AS closed, avg(coalesce(correct, reward)) AS score, "
        "count(*) AS n FROM episodes GROUP BY agent, step ORDER BY agent, step"
    )
    rows = [row for row in rows if not row["closed"]] or rows
    steps: dict[str, list[Any]] = {}
    for row in rows:
        if row["step"] is not None:
            steps.setdefault(row["agent"], []).append(row)
    if trained := max((s for s in steps.values() if len(s) > 1), key=len, default=None):
        return _side(trained[0]), _side(trained[-1])
    by_score = sorted(rows, key=lambda row: -(row["score"] or 0.0))
    after = next((row for row in by_score if row["agent"] not in BARS), by_score[0])
    others = [row for row in rows if row["agent"] != after["agent"]] or rows
    before = next(
        (row for name in ("untrained", "rules") for row in others if name in row["agent"]),
        others[0],
    )
    return _side(before), _side(after)


def _side(row: Any) -> Side:
    return Side(row["agent"], row["step"])


def changes(index: Index, before: Side, after: Side) -> list[Any]:
    """Tasks that both played: mean correctness (else reward) of each, the largest change first."""
    part = (
        "SELECT task, min(key) AS key, min(question) AS question, count(*) AS n, "
        "avg(coalesce(correct, reward)) AS score FROM episodes "
        "WHERE agent = ? AND step IS ? GROUP BY task"
    )
    return index.rows(
        f"SELECT a.task, a.question, a.key AS a_key, b.key AS b_key, a.n AS a_n, b.n AS b_n, "
        f"a.score AS a_score, b.score AS b_score, b.score - a.score AS change "
        f"FROM ({part}) a JOIN ({part}) b ON a.task = b.task "
        "ORDER BY abs(b.score - a.score) DESC, b.score - a.score, a.question",
        (*before, *after),
    )
