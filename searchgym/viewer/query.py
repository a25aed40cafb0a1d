"""Queries of an index: filters from a query string, pages of episodes, relatives, policies."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ..charts.palette import BARS
from ..errors import DataError
from ..text import normal_form
from .index import Index
from .record import OUTCOMES, PROBLEMS

PAGE = 50
MOST_TEXT = 200
"""Characters of a search."""
SORTS = {
    "": "place, closed, agent, step, id",
    "files": "id",
    "reward": "reward DESC, id",
    "-reward": "reward, id",
    "turns": "turns DESC, id",
    "-turns": "turns, id",
    "searches": "searches DESC, id",
    "recall": "recall, id",
    "question": "question, agent, step, id",
}
BOOKS = {"": "open book", "closed": "closed book", "all": "both"}
"""Choice of episodes where some were played without tools, for comparison."""
_LISTED = (
    "key, episode, task, agent, step, family, hops, outcome, ending, reward, correct, recall, "
    "turns, searches, problems, parent, closed, question, answer, gold"
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of episodes and their order. Every field is a text, as it stands in an
    address."""

    q: str = ""
    outcome: str = ""
    agent: str = ""
    step: str = ""
    family: str = ""
    hops: str = ""
    tool: str = ""
    end: str = ""
    problem: str = ""
    book: str = ""
    """One of :data:`BOOKS`. An agent that is named is shown whichever way it played."""
    least: str = ""
    """Reward at least."""
    most: str = ""
    sort: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Filter:
        """Read a filter from an address; what is unknown or no number is left out."""
        texts = {f.name: values.get(f.name, "")[:MOST_TEXT].strip() for f in fields(cls)}
        for name, known in _KNOWN.items():
            if texts[name] not in known:
                texts[name] = ""
        for name in ("step", "hops"):
            if not re.fullmatch(r"\d{1,12}", texts[name]):
                texts[name] = ""
        for name in ("least", "most"):
            if _finite(texts[name]) is None:
                texts[name] = ""
        return cls(**texts)

    @property
    def first(self) -> str:
        """Return the target of an episode's link: the first place that holds the words."""
        return "#found" if query_words(self.q) else ""

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self) if f.name != "sort")

    def address(self, **more: Any) -> str:
        """The query string, without what is empty."""
        pairs = {f.name: getattr(self, f.name) for f in fields(self)} | more
        return urlencode({name: value for name, value in pairs.items() if value not in ("", None)})

    def but(self, **changes: str) -> Filter:
        return replace(self, **changes)

    def where(self) -> tuple[str, list[Any]]:
        """A condition of SQL and its values."""
        tests: list[str] = []
        values: list[Any] = []
        for column in ("outcome", "agent", "step", "family", "hops"):
            if text := getattr(self, column):
                tests.append(f"{column} = ?")
                values.append(int(text) if column in ("step", "hops") else text)
        if self.end:
            tests.append("ending = ?")
            values.append(self.end)
        if self.book == "closed":
            tests.append("closed = 1")
        elif not self.book and not self.agent:  # unless there are no others
            tests.append("(closed = 0 OR NOT EXISTS (SELECT 1 FROM episodes WHERE closed = 0))")
        for column, text in (("tools", self.tool), ("problems", self.problem)):
            if text:
                tests.append(f"instr({column}, ?)")
                values.append(f" {text} ")
        for sign, text in ((">=", self.least), ("<=", self.most)):
            if (number := _finite(text)) is not None:
                tests.append(f"reward {sign} ?")
                values.append(number)
        if words := query_words(self.q):
            # all words, the last one as a beginning: it may still be being typed
            tests.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
            values.append(" ".join(f'"{w}"' for w in words) + "*")
        return " AND ".join(tests) or "1", values


_KNOWN: dict[str, Mapping[str, str]] = {
    "outcome": OUTCOMES, "problem": PROBLEMS, "book": BOOKS, "sort": SORTS,
}  # fmt: skip


class Listing(NamedTuple):
    """One page of episodes."""

    rows: list[Any]
    total: int
    mean: float | None
    """Reward."""
    right: float | None
    """Share of the scored that are right."""
    page: int
    pages: int


def listing(index: Index, chosen: Filter, page: int = 1, size: int = PAGE) -> Listing:
    """A page (1 is the first) of the episodes that were chosen."""
    where, values = chosen.where()
    total, mean, right = _sums(index, index.version, where, tuple(values))
    pages = max(1, math.ceil(total / size))
    page = min(max(1, page), pages)
    rows = index.rows(
        f"SELECT {_LISTED} FROM episodes WHERE {where} ORDER BY {SORTS[chosen.sort]} "
        f"LIMIT {size} OFFSET {(page - 1) * size}",
        values,
    )
    return Listing(rows, total, mean, right, page, pages)


@lru_cache(maxsize=256)
def _sums(
    index: Index, version: int, where: str, values: tuple[Any, ...]
) -> tuple[int, float | None, float | None]:
    """Episodes, mean reward and share that is right; ``version`` is the index's, for the cache:
    pages and orders of one list share them."""
    (row,) = index.rows(
        "SELECT count(*) AS n, avg(reward) AS mean, "
        "avg(CASE WHEN correct IS NULL THEN NULL ELSE outcome = 'right' END) AS good "
        f"FROM episodes WHERE {where}",
        values,
    )
    return row["n"], row["mean"], row["good"]


def neighbours(index: Index, chosen: Filter, at: int) -> tuple[str | None, str | None]:
    """Keys of the episodes before and after place ``at`` (0 is the first) of a list."""
    where, values = chosen.where()
    first = max(0, at - 1)
    rows = index.rows(
        f"SELECT key FROM episodes WHERE {where} ORDER BY {SORTS[chosen.sort]} "
        f"LIMIT 3 OFFSET {first}",
        values,
    )
    keys: list[str | None] = [row["key"] for row in rows]
    if at == 0:
        keys.insert(0, None)
    keys += [None] * 3
    return keys[0], keys[2]


def choices(index: Index) -> dict[str, list[tuple[Any, int]]]:
    """Return what can be chosen of each column, with counts; most frequent first, numbers in
    order."""
    menus: dict[str, list[tuple[Any, int]]] = {}
    for name, column in (
        ("outcome", "outcome"), ("agent", "agent"), ("step", "step"), ("family", "family"),
        ("hops", "hops"), ("end", "ending"), ("tool", "tools"), ("problem", "problems"),
        ("book", "closed"),
    ):  # fmt: skip
        rows = index.rows(f"SELECT {column} AS v, count(*) AS n FROM episodes GROUP BY {column}")
        counts: dict[Any, int] = {}
        for row in rows:
            values = row["v"].split() if name in ("tool", "problem") else [row["v"]]
            for value in values:
                if value not in (None, ""):
                    counts[value] = counts.get(value, 0) + row["n"]
        numbers = name in ("step", "hops")
        menus[name] = sorted(counts.items(), key=lambda c: c[0] if numbers else (-c[1], c[0]))[:200]
    return menus


def newest(index: Index, most: int) -> list[Any]:
    """The episodes that were written last, the last one first."""
    return index.rows(f"SELECT {_LISTED} FROM episodes ORDER BY id DESC LIMIT {most}")


def same_task(index: Index, task: str, most: int = 40) -> list[Any]:
    """Episodes on the same question, by agent and step."""
    return index.rows(
        f"SELECT {_LISTED} FROM episodes WHERE task = ? ORDER BY agent, step, id LIMIT {most}",
        (task,),
    )


class Branch(NamedTuple):
    """An episode in its tree."""

    row: Any
    depth: int
    turn: int | None
    """Turn of the parent at which it branched off."""


def tree(index: Index, episode: str, agent: str, most: int = 500) -> list[Branch]:
    """Branches that grew from the same root, parents first; empty if there is only one."""
    columns = f"{_LISTED}, branched"
    root, seen = episode, set()
    while root not in seen:
        seen.add(root)
        up = index.rows(
            "SELECT parent FROM episodes WHERE episode = ? AND agent = ?", (root, agent)
        )
        if not up or up[0]["parent"] is None:
            break
        root = up[0]["parent"]
    start = index.rows(
        f"SELECT {columns} FROM episodes WHERE episode = ? AND agent = ?", (root, agent)
    )
    branches: list[Branch] = []
    stack = [Branch(row, 0, None) for row in start[:1]]
    visited = set()
    while stack and len(branches) < most:
        branch = stack.pop()
        name = branch.row["episode"]
        if name in visited:
            continue
        visited.add(name)
        branches.append(branch)
        below = index.rows(
            f"SELECT {columns} FROM episodes WHERE parent = ? AND agent = ? "
            "ORDER BY branched DESC, id DESC", (name, agent),
        )  # fmt: skip
        stack += [Branch(row, branch.depth + 1, row["branched"]) for row in below]
    return branches if len(branches) > 1 else []


# --- policies ------------------------------------------------------------------------------------
class Side(NamedTuple):
    """A policy: an agent, at a step of its training where there are several."""

    agent: str
    step: int | None

    def __str__(self) -> str:
        return self.agent if self.step is None else f"{self.agent}, step {self.step:,}"


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
    counts_of: dict[Side, dict[str, int]] = {}
    for row in rows:
        counts = counts_of.setdefault(Side(row["agent"], None if several else row["step"]), {})
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["n"]
    sides = list(counts_of)
    if several:
        sides.sort(key=lambda s: -counts_of[s].get("right", 0) / sum(counts_of[s].values()))
    elif len(sides) > most:
        sides = [sides[round(i * (len(sides) - 1) / (most - 1))] for i in range(most)]
    bars = []
    for side in sides[:most]:
        counts = counts_of[side]
        total = sum(counts.values())
        scored = total - counts.get("unscored", 0) - counts.get("lost", 0)
        ordered = {name: counts[name] for name in OUTCOMES if name in counts}
        share = counts.get("right", 0) / scored if scored else None
        bars.append(Bar(*side, ordered, total, share))
    return bars


def sides(index: Index) -> tuple[list[Side], Side, Side]:
    """Every policy of a run, those that played closed-book last, and the two of them that one wants
    to compare first: the first and the last step of a training; else what is called untrained or
    rules, and the best of the others that is no mere bar."""
    rows = index.rows(
        "SELECT agent, step, max(closed) AS closed, avg(coalesce(correct, reward)) AS score "
        "FROM episodes GROUP BY agent, step ORDER BY closed, agent, step LIMIT 1000"
    )
    if not rows:
        raise DataError("No episode of this run can be read.")
    known = [Side(row["agent"], row["step"]) for row in rows]
    score = {Side(row["agent"], row["step"]): row["score"] or 0.0 for row in rows}
    played = [s for s, row in zip(known, rows, strict=True) if not row["closed"]] or known
    steps: dict[str, list[Side]] = {}
    for side in played:
        if side.step is not None:
            steps.setdefault(side.agent, []).append(side)
    trained = max(steps.values(), key=len, default=[])
    if len(trained) > 1:
        return known, trained[0], trained[-1]
    after = max(played, key=lambda side: (side.agent not in BARS, score[side]))
    others = [side for side in played if side.agent != after.agent] or played
    names = ("untrained", "rules")
    before = next((s for name in names for s in others if name in s.agent), others[0])
    return known, before, after


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


# --- texts ---------------------------------------------------------------------------------------
def query_words(text: str) -> list[str]:
    """Words as the index's tokenizer cuts them. It knows the letters of Unicode 6.1; those of 3.2
    are among them, and anything newer would make two words of one, which is an error there."""
    category = unicodedata.ucd_3_2_0.category
    known = (c if category(c)[0] in "LN" else " " for c in normal_form("NFC", text))
    return "".join(known).split()


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
