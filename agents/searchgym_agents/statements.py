"""A learner of SqlQA-v0: a linear policy over statements that fit the tables and the names asked.

It reads what every agent reads: the tool's description (tables and columns) and the question. Each
form of statement is filled with the names in the question and with the tables' columns, some 1,500
candidates; a candidate's score is a sum of weights of (word of the question, form) and (word,
column). Weights are trained by a policy gradient relative to a question's group (Shao et al.,
arXiv 2402.03300), from zero but for the overlap of words with columns' names.

``python -m searchgym_agents.statements --seeds 0 1 2`` trains it and prints its scores.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.agents import read_state
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.seeding import stream
from searchgym.types import ABSTAIN, Action, Answer, Call, Task, TurnRequest
from searchgym.utils.english import STOP, fold

from .candidate.question import read_question

WORDS, COLUMNS = 4_096, 512
"""Places of hashed words and columns."""
FORMS = (
    "lookup", "list", "count", "link", "link count", "sum", "first", "last", "link first",
    "link last", "difference", "less", "more", "same", "both", "link both", "two steps",
)  # fmt: skip
Table = tuple[str, tuple[tuple[str, str], ...]]
"""A name, and the names and kinds of its columns."""


class Statement(NamedTuple):
    """A candidate: its form and the columns (``table.column``) that it is filled with."""

    sql: str
    form: str
    columns: tuple[str, ...]


@lru_cache(maxsize=8)
def tables_of(description: str) -> tuple[Table, ...]:
    """Tables as the tool ``sql`` describes them."""
    found = re.findall(r"\b(\w++)\(([^()]*)\)", description.partition("Tables: ")[2])
    return tuple(
        (
            name,
            tuple((c, kind) for c, _, kind in (part.partition(" ") for part in said.split(", "))),
        )
        for name, said in found
    )


def statements(question: str, tables: Sequence[Table]) -> list[Statement]:
    """All candidates of a question, in a fixed order."""
    texts = [re.sub(r"['’]s$", "", text) for text in read_question(question).mention_texts]
    names = list(dict.fromkeys(texts))[:3]
    kinds = {table: columns for table, columns in tables if dict(columns).get("title") == "text"}
    links = [(table, columns) for table, columns in tables if table not in kinds]
    made: dict[str, Statement] = {}
    for made_of in (_of_one, _of_two):
        for one in made_of(["'" + n.replace("'", "''") + "'" for n in names], kinds, links):
            made.setdefault(one.sql, one)
    return list(made.values())


def _of_one(names: Sequence[str], kinds: Mapping[str, Any], links: Any) -> Iterator[Statement]:
    for a in names:
        for table, columns in kinds.items():
            numbers = [c for c, kind in columns if kind == "integer"]
            for c, kind in columns[2:]:
                at = f"{table}.{c}"
                yield Statement(f"SELECT {c} FROM {table} WHERE title = {a}", "lookup", (at,))
                if kind not in kinds:
                    continue
                yield Statement(f"SELECT title FROM {table} WHERE {c} = {a}", "list", (at,))
                yield Statement(f"SELECT count(*) FROM {table} WHERE {c} = {a}", "count", (at,))
                for n in numbers:
                    both = (at, f"{table}.{n}")
                    yield Statement(f"SELECT sum({n}) FROM {table} WHERE {c} = {a}", "sum", both)
                    for form, order in (("first", ""), ("last", " DESC")):
                        yield Statement(f"SELECT title FROM {table} WHERE {c} = {a} ORDER BY "
                                        f"{n}{order} LIMIT 1", form, both)  # fmt: skip
                for d, _ in kinds[kind][2:]:
                    yield Statement(
                        f"SELECT {d} FROM {kind} WHERE title = (SELECT {c} FROM {table} WHERE "
                        f"title = {a})", "two steps", (at, f"{kind}.{d}"),
                    )  # fmt: skip
        for table, ((x, kx), (y, ky)) in links:
            for mine, theirs, kind in ((x, y, ky), (y, x, kx)):
                at, members = f"{table}.{mine}", f'FROM "{table}" WHERE {mine} = {a}'
                yield Statement(f"SELECT {theirs} {members}", "link", (at,))
                yield Statement(f"SELECT count(*) {members}", "link count", (at,))
                for n in (c for c, k in kinds[kind] if k == "integer"):
                    for form, order in (("link first", ""), ("link last", " DESC")):
                        yield Statement(
                            f"SELECT title FROM {kind} WHERE title IN (SELECT {theirs} {members}) "
                            f"ORDER BY {n}{order} LIMIT 1", form, (at, f"{kind}.{n}"),
                        )  # fmt: skip


def _of_two(names: Sequence[str], kinds: Mapping[str, Any], links: Any) -> Iterator[Statement]:
    for a, b in [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]:
        for table, columns in kinds.items():
            pair = f"FROM {table} AS a, {table} AS b WHERE a.title = {a} AND b.title = {b}"
            for c, kind in columns[2:]:
                at = (f"{table}.{c}",)
                if kind == "integer":
                    yield Statement(f"SELECT abs(a.{c} - b.{c}) {pair}", "difference", at)
                if kind in ("integer", "date"):
                    for form, sign in (("less", "<"), ("more", ">")):
                        yield Statement(f"SELECT CASE WHEN a.{c} {sign} b.{c} THEN a.title ELSE "
                                        f"b.title END {pair}", form, at)  # fmt: skip
                else:
                    yield Statement(f"SELECT CASE WHEN a.{c} = b.{c} THEN 'yes' ELSE 'no' END "
                                    f"{pair}", "same", at)  # fmt: skip
                for d, other in columns[2:]:
                    if kind in kinds and other in kinds and c != d:
                        yield Statement(f"SELECT title FROM {table} WHERE {c} = {a} AND {d} = {b}",
                                        "both", (f"{table}.{c}", f"{table}.{d}"))  # fmt: skip
        for table, ((x, _), (y, _)) in links:
            for mine, theirs in ((x, y), (y, x)):
                both = " INTERSECT ".join(
                    f'SELECT {theirs} FROM "{table}" WHERE {mine} = {name}' for name in (a, b)
                )
                yield Statement(both, "link both", (f"{table}.{mine}",))


def _hashed(text: str, size: int) -> int:
    return zlib.crc32(text.encode()) % size


class Filled(NamedTuple):
    """Candidates of a question as numbers; N of them."""

    statements: list[Statement]
    words: NDArray[np.int64]
    """(W,) hashed words outside the names."""
    forms: NDArray[np.int64]
    """(N,)."""
    columns: NDArray[np.int64]
    """(N, 2) hashed columns; one that has a single column holds it twice."""
    overlap: NDArray[np.float64]
    """(N,) share of the words of the columns' names that the question says."""


class StatementAgent:
    """The policy; greedy as an agent.

    Args:
        weights: ``form`` (WORDS, F), ``column`` (WORDS, COLUMNS) and ``overlap`` (1,); zeros and 3.
    """

    def __init__(self, weights: Mapping[str, NDArray[np.float64]] | None = None) -> None:
        self.weights = dict(weights or {
            "form": np.zeros((WORDS, len(FORMS))), "column": np.zeros((WORDS, COLUMNS)),
            "overlap": np.full(1, 3.0),
        })  # fmt: skip

    def logits(self, q: Filled) -> NDArray[np.float64]:
        """(N,) scores."""
        scale = 1 / np.sqrt(max(1, len(q.words)))
        form = self.weights["form"][q.words].sum(0) * scale
        column = self.weights["column"][q.words].sum(0) * scale
        scores: NDArray[np.float64] = form[q.forms] + column[q.columns].mean(1)
        return scores + self.weights["overlap"][0] * q.overlap

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """The best statement, then its rows as the answer."""
        return [get_dialect(r.dialect).render_action(self._decide(r)) for r in requests]

    def _decide(self, request: TurnRequest) -> Action:
        said = [s.text for s in request.segments if s.kind == "results" and s.author == "env"]
        if said:
            return Answer(answer_of(said[-1]))
        described = next(t.description for t in request.tools if t.name == "sql")
        q = filled(read_state(request).question, described)
        if not q.statements:
            return Answer(ABSTAIN)
        best = q.statements[int(np.argmax(self.logits(q)))]
        return Call("sql", {"query": best.sql})


@lru_cache(maxsize=2_048)
def filled(question: str, description: str) -> Filled:
    """Candidates of a question over the tables that a tool describes."""
    made = statements(question, tables_of(description))
    read = read_question(question)
    pairs = zip(read.words.stem, read.in_mention, strict=True)
    stems = [stem for stem, named in pairs if not named and stem not in STOP]
    stems += [f"{a} {b}" for a, b in pairwise(stems)]
    known = {fold(stem)[:4] for stem in stems}
    columns = np.array([[_hashed(s.columns[0], COLUMNS), _hashed(s.columns[-1], COLUMNS)]
                        for s in made], dtype=np.int64).reshape(-1, 2)  # fmt: skip
    overlap = []
    for s in made:
        parts = [part[:4] for c in s.columns for part in re.split(r"[._]", c)]
        overlap.append(sum(part in known for part in parts) / len(parts))
    return Filled(
        made, np.array([_hashed(stem, WORDS) for stem in stems], dtype=np.int64),
        np.array([FORMS.index(s.form) for s in made], dtype=np.int64), columns, np.array(overlap),
    )  # fmt: skip


def answer_of(shown: str) -> str:
    """The rows below the header of what the tool showed, with semicolons."""
    first, last = shown.find("{"), shown.rfind("}")
    text = str(json.loads(shown[first : last + 1])["output"]) if 0 <= first < last else shown
    rows = text.strip().split("\n")[1:]
    return "; ".join(rows) or ABSTAIN


def train(
    env: SearchEnv, seed: int = 0, *, steps: int = 400, questions: int = 32, group: int = 16,
    rate: float = 0.3, paid: dict[tuple[str, str], float] | None = None,
) -> StatementAgent:  # fmt: skip
    """Train a policy on an environment's questions and its reward.

    Args:
        env: A SqlQA environment.
        seed: Fixes the order and the samples.
        steps: Updates.
        questions: Questions of an update.
        group: Statements sampled for each.
        rate: Step size.
        paid: What statements earned in this environment so far, by (task, statement); filled.
    """
    agent, rng = StatementAgent(), stream(seed, "statements")
    paid = {} if paid is None else paid
    described = next(t.description for t in env.rules.tools if t.name == "sql")
    grad, seen = (
        {name: np.zeros_like(value) for name, value in agent.weights.items()} for _ in range(2)
    )
    for _ in range(steps):
        for value in grad.values():
            value[:] = 0
        for place in rng.integers(len(env.tasks), size=questions):
            task = env.tasks[int(place)]
            q = filled(task.question, described)
            if not q.statements:
                continue
            logits = agent.logits(q)
            p = np.exp(logits - logits.max())
            p /= p.sum()
            drawn = rng.choice(len(p), size=group, p=p)
            rewards = np.array([earned(env, task, q.statements[i].sql, paid) for i in drawn])
            if rewards.std() < 1e-9:
                continue
            advantage = (rewards - rewards.mean()) / rewards.std() / group
            coef = -p * advantage.sum()
            np.add.at(coef, drawn, advantage)
            scale = 1 / np.sqrt(max(1, len(q.words))) / questions
            form, column = np.zeros(len(FORMS)), np.zeros(COLUMNS)
            np.add.at(form, q.forms, coef)
            np.add.at(column, q.columns.ravel(), np.repeat(coef, 2) / 2)
            np.add.at(grad["form"], q.words, form * scale)
            np.add.at(grad["column"], q.words, column * scale)
            grad["overlap"][0] += float(coef @ q.overlap) / questions
        for name, value in grad.items():  # Adagrad: rare words learn as fast as common ones
            seen[name] += value**2
            agent.weights[name] += rate * value / (np.sqrt(seen[name]) + 1e-8)
    return agent


def earned(env: SearchEnv, task: Task, sql: str, paid: dict[tuple[str, str], float]) -> float:
    """The return of the episode that runs a statement and answers with its rows."""
    key = task.id, sql
    if key not in paid:
        say = get_dialect(env.rules.dialect).render_action
        env.reset(seed=0, options={"task_id": task.id})
        env.step(say(Call("sql", {"query": sql})))
        shown = env.episode.contexts.segments[-1].text
        paid[key] = float(env.step(say(Answer(answer_of(shown))))[1])
    return paid[key]


def measured(seeds: Sequence[int], steps: int, questions: int = 150) -> dict[str, Any]:
    """Train with each seed; a run as ``expected.json`` keeps it, of the split "test"."""
    from searchgym import __version__
    from searchgym.cards import card
    from searchgym.evaluation import evaluate
    from searchgym.scoring import SCORING_VERSION

    keywords: dict[str, Any] = dict(card("envs", "SqlQA-v0").body["kwargs"])
    env, held_out = (
        SearchEnv(**keywords, reward="reasoning_sql"),
        SearchEnv(**keywords, split="test"),
    )
    asked, means = list(held_out.tasks)[:questions], []
    paid: dict[tuple[str, str], float] = {}
    for seed in seeds:
        agent = train(env, seed, steps=steps, paid=paid)
        means.append(evaluate(agent, held_out, tasks=asked, seed=seed, name="statements").means)
        print(f"seed {seed}: em {means[-1]['em'].mean:.3f}", flush=True)
    return {
        "command": "python -m searchgym_agents.statements",
        "arguments": ["--steps", str(steps), "--seeds", *map(str, seeds)],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"searchgym": __version__},
        "scoring": SCORING_VERSION,
        "rungs": [{"name": "SqlQA-v0", "kind": "generated", "above": "", "questions": len(asked)}],
        "table": [row(metric, [of[metric] for of in means], len(asked))
                  for metric in ("f1", "em", "evidence_recall", "searches")],
    }  # fmt: skip


def row(metric: str, of: Sequence[Any], questions: int) -> dict[str, Any]:
    """A cell of the table: means of the seeds' means and of the ends of their intervals."""
    ends = {end: round(float(np.mean([getattr(one, end) for one in of])), 4)
            for end in ("mean", "low", "high")}  # fmt: skip
    each = " ".join(f"{one.mean:.4f}" for one in of)
    return {"rung": "SqlQA-v0", "agent": "statements", "metric": metric, **ends,
            "questions": questions, "seeds": len(of), "each_seed": each}  # fmt: skip


def main() -> None:
    """Train with some seeds, print exact match on held-out questions, and store it if asked."""
    from searchgym.benchmark import reference_runs
    from searchgym.cards import catalog

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--write", action="store_true", help="store it beside the environment")
    args = parser.parse_args()
    run = measured(args.seeds, args.steps)
    if args.write:
        path = catalog("envs") / "SqlQA-v0" / "expected.json"
        print(reference_runs.save(path, "learner", run))


if __name__ == "__main__":
    main()
