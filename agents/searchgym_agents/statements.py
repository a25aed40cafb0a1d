"""A learner of SqlQA-v0: a linear policy over statements that fit the tables and the names asked.

It reads what every agent reads: the tool's description (tables and columns) and the question. Each
form of statement is filled with the names in the question and with the tables' columns, some 1,500
candidates; a candidate's score is a sum of weights of (word of the question, form) and (word,
column), and of how near the question's words are to a column's by the bundled sentence encoder.
Signs of projections of the question's meaning count as words, too, so that a wording that training
never showed is not all new. Weights are trained by a policy gradient relative to a question's group
(Shao et al., arXiv 2402.03300), from zero but for the overlap of words with columns' names.

The agent runs the best few statements and answers with the rows of the one that is likeliest right:
its share, times how often, in training, what rows like these of its form were right.

``python -m searchgym_agents.statements --seeds 0 1 2`` trains it and prints its scores.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.agents import read_state
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.seeding import stream
from searchgym.types import ABSTAIN, Action, Answer, Call, Task, TurnRequest
from searchgym.utils.english import STOP, fold, tokenise

from .candidate.encoder import WordEncoder
from .candidate.question import read_question

WORDS, COLUMNS = 4_096, 512
"""Places of hashed words and columns."""
BITS, NEAR = 32, 4
"""Signs of a question's meaning; numbers that say how near a column is to it."""
TRIED = 5
"""Statements that are run before the answer, where there are turns for them."""
ROWS = ("none", "zero", "one", "few", "many")
"""What a statement can give."""
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
    near: NDArray[np.float64]
    """(N, 2 * NEAR) how near each column is to the question in meaning."""


class StatementAgent:
    """The policy; greedy as an agent.

    Args:
        weights: ``form`` (WORDS, F), ``column`` (WORDS, COLUMNS), ``overlap`` (1,), ``near``
            (2 * NEAR,), and ``right`` (F, len(ROWS)), the share of such rows that were right;
            zeros, 3 and a half.
    """

    def __init__(self, weights: Mapping[str, NDArray[np.float64]] | None = None) -> None:
        self.weights = dict(weights or {
            "form": np.zeros((WORDS, len(FORMS))), "column": np.zeros((WORDS, COLUMNS)),
            "overlap": np.full(1, 3.0), "near": np.zeros(2 * NEAR),
            "right": np.full((len(FORMS), len(ROWS)), 0.5),
        })  # fmt: skip

    def logits(self, q: Filled) -> NDArray[np.float64]:
        """(N,) scores."""
        scale = 1 / np.sqrt(max(1, len(q.words)))
        form = self.weights["form"][q.words].sum(0) * scale
        column = self.weights["column"][q.words].sum(0) * scale
        scores: NDArray[np.float64] = form[q.forms] + column[q.columns].mean(1)
        return scores + self.weights["overlap"][0] * q.overlap + q.near @ self.weights["near"]

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """The best statements, then the rows of the likeliest as the answer."""
        return [get_dialect(r.dialect).render_action(self._decide(r)) for r in requests]

    def _decide(self, request: TurnRequest) -> Action:
        said = [s.text for s in request.segments if s.kind == "results" and s.author == "env"]
        described = next(t.description for t in request.tools if t.name == "sql")
        q = filled(read_state(request).question, described)
        logits = self.logits(q)
        best = np.argsort(-logits, kind="stable")[:TRIED]
        if len(said) < len(best) and request.turns_left > 1:
            return Call("sql", {"query": q.statements[int(best[len(said)])].sql})
        answers = [answer_of(text) for text in said]
        worth = [
            logits[i] + np.log(self.weights["right"][q.forms[i], kind_of(answer)])
            for i, answer in zip(best, answers, strict=False)
        ]
        return Answer(answers[int(np.argmax(worth))] if worth else ABSTAIN)


@lru_cache(maxsize=2_048)
def filled(question: str, description: str) -> Filled:
    """Candidates of a question over the tables that a tool describes."""
    made = statements(question, tables_of(description))
    read = read_question(question)
    pairs = zip(read.words.stem, read.in_mention, strict=True)
    stems = [stem for stem, named in pairs if not named and stem not in STOP]
    stems += [f"{a} {b}" for a, b in pairwise(stems)]
    known = {fold(stem)[:4] for stem in stems}
    told = [i for i, named in enumerate(read.in_mention)
            if not named and read.words.lower[i] not in STOP]  # fmt: skip
    vectors = vectors_of(question)[told] if told else np.zeros((1, 1), np.float32)
    meaning = vectors.mean(0)
    stems += [f"{i} {sign}" for i, sign in enumerate(signs_of(meaning))]
    close = {
        c: nearness(c, vectors, meaning) for c in dict.fromkeys(c for s in made for c in s.columns)
    }
    near = [[*close[s.columns[0]], *close[s.columns[-1]]] for s in made]
    columns = np.array([[_hashed(s.columns[0], COLUMNS), _hashed(s.columns[-1], COLUMNS)]
                        for s in made], dtype=np.int64).reshape(-1, 2)  # fmt: skip
    overlap = []
    for s in made:
        parts = [part[:4] for c in s.columns for part in re.split(r"[._]", c)]
        overlap.append(sum(part in known for part in parts) / len(parts))
    return Filled(
        made, np.array([_hashed(stem, WORDS) for stem in stems], dtype=np.int64),
        np.array([FORMS.index(s.form) for s in made], dtype=np.int64), columns, np.array(overlap),
        np.array(near, dtype=np.float64).reshape(-1, 2 * NEAR),
    )  # fmt: skip


@cache
def _encoder() -> WordEncoder:
    """The bundled encoder, which is not trained.

    Raises:
        MissingExtraError: the extra "encoder" is not installed.
    """
    return WordEncoder()


@lru_cache(maxsize=4_096)
def vectors_of(text: str) -> NDArray[np.float32]:
    """(W, D) vectors of a text's words."""
    return _encoder()(tokenise(text))


def signs_of(meaning: NDArray[np.float32]) -> list[int]:
    """Signs of a vector along directions that are always the same (Charikar, 2002)."""
    axes = stream(0, "signs", len(meaning)).standard_normal((len(meaning), BITS))
    return [int(value > 0) for value in meaning @ axes]


def nearness(
    column: str, vectors: NDArray[np.float32], meaning: NDArray[np.float32]
) -> tuple[float, ...]:
    """Cosines, NEAR of them, of ``table.column`` and a question: the column's words with the
    nearest of the question's, the table's, both with the question's mean, and the column's so."""
    table, _, name = column.partition(".")
    words = [*name.split("_"), *table.split("_")]
    said = vectors_of(f"the {name.replace('_', ' ')} of the {table.replace('_', ' ')}")
    if said.shape[1] != vectors.shape[1]:
        return (0.0,) * NEAR
    mine, other = said[1 : 1 + name.count("_") + 1], said[-table.count("_") - 1 :]
    assert len(said) == len(words) + 3
    mean = meaning / max(float(np.linalg.norm(meaning)), 1e-6)
    best = [float((part @ vectors.T).max(1).mean()) for part in (mine, other)]
    whole = np.concatenate([mine, other])
    return *best, float(whole.mean(0) @ mean), float(mine.mean(0) @ mean)


def kind_of(answer: str) -> int:
    """Which of ``ROWS`` an answer is."""
    rows = answer.split("; ")
    if answer in (ABSTAIN, "None", ""):
        return 0
    return 1 if answer == "0" else 2 if len(rows) == 1 else 3 if len(rows) < 4 else 4


def answer_of(shown: str) -> str:
    """The rows below the header of what the tool showed, with semicolons."""
    first, last = shown.find("{"), shown.rfind("}")
    text = str(json.loads(shown[first : last + 1])["output"]) if 0 <= first < last else shown
    rows = text.strip().split("\n")[1:]
    return "; ".join(rows) or ABSTAIN


def train(
    env: SearchEnv, seed: int = 0, *, steps: int = 400, questions: int = 32, group: int = 16,
    rate: float = 0.3, paid: dict[tuple[str, str], Paid] | None = None,
    each: Callable[[int, StatementAgent, float], object] = lambda step, agent, right: None,
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
        each: Is told the number of each update, the agent, and the share of its statements whose
            rows were the answer.
    """
    agent, rng = StatementAgent(), stream(seed, "statements")
    paid = {} if paid is None else paid
    described = next(t.description for t in env.rules.tools if t.name == "sql")
    grad, seen = (
        {name: np.zeros_like(value) for name, value in agent.weights.items()} for _ in range(2)
    )
    tries, right = (np.full(agent.weights["right"].shape, start) for start in (2.0, 1.0))
    for step in range(steps):
        found: list[float] = []
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
            told = [earned(env, task, q.statements[i].sql, paid) for i in drawn]
            rewards = np.array([one.reward for one in told])
            for i, one in zip(drawn, told, strict=True):
                tries[q.forms[i], one.rows] += 1
                right[q.forms[i], one.rows] += one.right
                found.append(one.right)
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
            grad["near"] += coef @ q.near / questions
        for name, value in grad.items():  # Adagrad: rare words learn as fast as common ones
            seen[name] += value**2
            agent.weights[name] += rate * value / (np.sqrt(seen[name]) + 1e-8)
        agent.weights["right"][:] = right / tries
        each(step + 1, agent, float(np.mean(found)) if found else 0.0)
    return agent


class Paid(NamedTuple):
    """What the episode earned that ran a statement and answered with its rows."""

    reward: float
    right: float
    """1 if that was the answer, else 0."""
    rows: int
    """Number of one of ``ROWS``."""


def earned(env: SearchEnv, task: Task, sql: str, paid: dict[tuple[str, str], Paid]) -> Paid:
    """The return of the episode that runs a statement and answers with its rows; kept."""
    key = task.id, sql
    if key not in paid:
        say = get_dialect(env.rules.dialect).render_action
        env.reset(seed=0, options={"task_id": task.id})
        env.step(say(Call("sql", {"query": sql})))
        shown = env.episode.contexts.segments[-1].text
        answer = answer_of(shown)
        reward = float(env.step(say(Answer(answer)))[1])
        outcome = env.episode.outcome()
        paid[key] = Paid(reward, outcome.em if outcome else 0.0, kind_of(answer))
    return paid[key]


def drawn(env: SearchEnv, tasks: Sequence[Task], times: int = 4) -> list[float]:
    """(len(tasks),) share of right answers among statements drawn uniformly."""
    described = next(t.description for t in env.rules.tools if t.name == "sql")
    shares = []
    for task in tasks:
        made, rng = filled(task.question, described).statements, stream(0, "drawn", task.id)
        picks = rng.integers(len(made), size=times) if made else ()
        right = [earned(env, task, made[int(i)].sql, {}).right for i in picks]
        shares.append(float(np.mean(right)) if right else 0.0)
    return shares


def main() -> None:
    """Train with some seeds; print exact match on the split test, and keep it if asked."""
    import gymnasium as gym

    from searchgym.envs.registration import env_id
    from searchgym.evaluation import evaluate

    from .macros.curves import began, keep

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--write", action="store_true", help="keep the curves in the package")
    args = parser.parse_args()
    name = "SqlQA-v1"
    env: Any = gym.make(env_id(name), reward="reasoning_sql").unwrapped
    held_out: Any = gym.make(env_id(name), split="test").unwrapped
    asked = list(held_out.tasks)[: args.questions]
    made = began(len(asked), 32 * 16, float(np.mean(drawn(held_out, asked))))
    paid: dict[tuple[str, str], Paid] = {}

    def each(step: int, agent: StatementAgent, right: float) -> None:
        one["train"].append(round(right, 4))
        if step % args.every == 0 or step == args.steps:
            means = evaluate(agent, held_out, tasks=asked, name="statements").means["em"]
            one["test"].append([step, *(round(float(x), 4) for x in means[:3])])
            print(json.dumps({"seed": seed, "step": step, "right": right, "test": means[:3]}),
                  flush=True)  # fmt: skip

    for seed in args.seeds:
        one: dict[str, list[Any]] = {"train": [], "test": []}
        train(env, seed, steps=args.steps, paid=paid, each=each)
        made["seeds"][str(seed)] = one
        if args.write:
            keep(name, made)


if __name__ == "__main__":
    main()
