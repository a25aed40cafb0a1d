"""The best scripted searcher: measures what n turns can show to an agent that always asks well.

Its queries are scripted, its choice among them is not: per turn it may search for the question, a
name in the question, a bridging title (of a page it needs, if the question or a passage it has been
shown mentions it; alone, or with the words of the question that name nothing), the title of a
passage it has been shown, or a gold query where the task has some; of these it takes the one that
shows most of what is missing. So it is an upper bound for agents that make such searches (a greedy
one: which queries together need fewest turns is not searched for), and what it does not find within
k results no search of these kinds finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from searchgym.batching import run_batch
from searchgym.corpora.corpus import AnswerIndex
from searchgym.errors import EngineError
from searchgym.seeding import derive
from searchgym.text import bare_title, normalise_answer
from searchgym.types import CallContext, Failure, Query, Ranking, SearchEngine, Task
from searchgym_agents.candidate.question import read_question

Progress = Callable[[int], object]
NAMES = 6
"""Names of a question that are searched for, longest first."""
TITLES = 6
"""Shown titles that are followed, newest first."""
WANTED = 50
"""Largest number of passages with the answer whose titles are searched for without known gold."""


@dataclass
class Sought:
    """One question under way."""

    task: Task
    gold: frozenset[str]
    """Passages to be shown; empty where none are known, and an answer is looked for instead."""
    stated_in: frozenset[str]
    """Passages in which an accepted answer can be read."""
    index: AnswerIndex
    """Index of the corpus's statements of answers."""
    shown: dict[str, str] = field(default_factory=dict)
    """Passage id → title, in the order of showing."""
    asked: list[str] = field(default_factory=list)
    """The queries taken, one per turn."""
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Query → ids it found: every scripted query tried so far."""
    titles: dict[str, str] = field(default_factory=dict)
    spent: bool = False
    """True once no remaining query shows anything new."""

    @property
    def missing(self) -> frozenset[str]:
        return self.gold - self.shown.keys()

    @property
    def done(self) -> bool:
        """True if all gold was shown or, without gold, a passage that states an answer."""
        return not self.missing if self.gold else not self.stated_in.isdisjoint(self.shown)

    def queries(self) -> list[str]:
        """The queries that may be asked now, most promising first."""
        question = read_question(self.task.question)
        names = sorted(question.mention_texts, key=lambda name: (-len(name), name))[:NAMES]
        relation = question.relation_text()
        titles = dict.fromkeys(bare_title(t) for t in reversed(self.shown.values()) if t)
        followed = [*self.bridges(), *list(titles)[:TITLES]]
        pool = [*self.task.queries, self.task.question, *names]
        pool += [q for t in followed for q in (t, f"{t} {relation}".strip())]
        return [q for q in dict.fromkeys(pool) if q.strip() and q not in self.asked]

    def bridges(self) -> list[str]:
        """Titles of pages still needed that the question or a shown passage mentions."""
        needed = self.missing if self.gold else self.stated_in
        if not self.gold and len(needed) > WANTED:
            return []
        asked = f" {normalise_answer(self.task.question)} "
        bridges = []
        for title in sorted({bare_title(self.index.corpus.passage(p).title) for p in needed}):
            name = normalise_answer(title)
            if name and (f" {name} " in asked or self.index.readable([title], self.shown)):
                bridges.append(title)
        return bridges

    def take(self) -> None:
        """One turn: the tried query that shows most of what is missing; then anything new."""
        best, score = "", (0, 0, 0)
        for query in self.queries():
            ids = set(self.answers.get(query, ()))
            new = ids - self.shown.keys()
            wanted = len(ids & self.missing) if self.gold else len(ids & self.stated_in)
            tells = len(new & self.stated_in)
            if (wanted, tells, len(new)) > score:
                best, score = query, (wanted, tells, len(new))
        if not best:
            self.spent = True
            return
        self.asked.append(best)
        self.shown |= {p: self.titles[p] for p in self.answers[best]}


def search(
    sought: Sequence[Sought],
    engine: SearchEngine,
    *,
    k: int,
    turns: int,
    progress: Progress | None = None,
) -> None:
    """Let every question have up to ``turns`` searches of ``k`` results; one engine call a turn.

    ``progress`` is told how many questions were finished.

    Raises:
        EngineError: a query failed.
    """
    for turn in range(turns):
        open_ = [s for s in sought if not s.done and not s.spent]
        if not open_:
            return
        todo = [(s, q) for s in open_ for q in s.queries() if q not in s.answers]
        found = rankings(engine, [(s.task, q) for s, q in todo], k, turn)
        for (s, q), ranking in zip(todo, found, strict=True):
            s.answers[q] = tuple(hit.passage.id for hit in ranking)
            s.titles |= {hit.passage.id: hit.passage.title for hit in ranking}
        for s in open_:
            s.take()
        if progress is not None:
            progress(sum(s.done or s.spent for s in open_))
    if progress is not None:
        progress(sum(not s.done and not s.spent for s in sought))


def rankings(
    engine: SearchEngine, asked: Sequence[tuple[Task, str]], k: int, turn: int = 0
) -> list[Ranking]:
    """Results of an engine for each task's query; ``EngineError`` if one failed."""
    batch = [
        Query(q, k, CallContext(derive(turn, task.id, q), task.id, {}, None, task))
        for task, q in asked
    ]
    found = run_batch(engine, batch) if batch else ()
    for (_, q), result in zip(asked, found, strict=True):
        if isinstance(result, Failure):
            raise EngineError(f"query {q!r} failed ({result.kind}): {result.message}")
    return list(found)
