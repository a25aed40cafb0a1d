"""The quoting oracle: an agent that knows the way and shows its reasons in the pages' own words.

It first searches for the question as it stands, which finds something in any corpus; then it quotes
each sentence that states a fact it needs, under its page's title, and searches for what is still
missing. Answers are written as the pages write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.types import ABSTAIN, Action, Answer, Search, Segment, Task, TurnRequest

from .base import TagExpert

_ENDS = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9])")
"""Boundaries of sentences."""


class Stated(NamedTuple):
    """A fact that a question rests on, as a passage states it."""

    passage: str
    """Id of the passage."""
    end: int
    """Characters of the passage that must be shown for the sentence to be read."""
    quote: str
    """The sentence that states it, after the page's title."""
    nodes: frozenset[str] = frozenset()
    """Ids of the two things that it relates, in the task's graph."""


class _Way(NamedTuple):
    task: Task
    facts: tuple[Stated, ...]
    given: frozenset[str]
    """Ids of the things that the question names."""

    def read(self, results: Sequence[Segment]) -> list[Stated]:
        return readable(self.facts, self.given, results)


class QuotingOracle(TagExpert[_Way]):
    """Answers a generated world's questions that rest on stated facts, in the tag dialects.

    It believes only what it was shown, and abstains where no query of the task's shows what is
    missing. ``TaskError`` for questions of other settings; ``DialectError`` for other dialects.
    """

    registered = "expert:quoting"
    fingerprint = "quoting-oracle"

    def _known(self, env: SearchEnv) -> Iterator[tuple[Task, _Way]]:
        if not isinstance(env.corpus, GeneratedCorpus):
            raise TaskError("demonstrations need a generated world, e.g. corpus='encyclopedia'")
        for task in env.tasks:
            yield task, _Way(task, facts_of(task, env.corpus), given_in(task))

    def _act(self, request: TurnRequest) -> str:
        way = self._way(request.segments)
        results = [s for s in request.segments if s.hits]
        if not any(s.author == "policy" for s in request.segments):
            return self._dialect.render_action(Search((way.task.question,)))
        before, now = way.read(results[:-1]), way.read(results)
        thought = " ".join(dict.fromkeys(f.quote for f in now if f not in before))
        return self._dialect.render_action(self._choose(request, way, now, results), thought)

    def _choose(
        self, request: TurnRequest, way: _Way, known: Sequence[Stated], results: Sequence[Segment]
    ) -> Action:
        task = way.task
        if len(known) == len(way.facts):
            return Answer(as_written(task.answers, results))
        if request.turns_left > 1 and request.queries_left != 0:
            missing = {fact.passage for fact in way.facts if fact not in known}
            tried = self._tried(request)
            for passage, query in zip(task.evidence, task.queries, strict=True):
                search = self._dialect.canonical(Search((query,)))
                if passage in missing and search not in tried:
                    return search
        return Answer(ABSTAIN)


def given_in(task: Task) -> frozenset[str]:
    """Ids of the nodes of a task's graph that its question names."""
    return frozenset(n.id for n in task.graph.nodes if n.given) if task.graph else frozenset()


def facts_of(task: Task, corpus: GeneratedCorpus) -> tuple[Stated, ...]:
    """The facts behind a task in the order in which it needs them; ``TaskError`` if it has none."""
    if task.graph is None or not task.graph.edges:
        raise TaskError(f"task {task.id!r} rests on no stated facts: nothing can be quoted")
    facts = []
    for edge in task.graph.edges:
        where = corpus.position(edge.passage)
        stated = next(s for s in corpus.statements(edge.fact) if s.passage == where)
        page = corpus[where]
        start, end = sentence_around(page.text, stated.start, stated.end)
        quote = f"{page.title}: {page.text[start:end]}"
        nodes = frozenset((edge.subject, edge.object))
        facts.append(Stated(edge.passage, end, quote, nodes))
    return tuple(facts)


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Bounds of the sentences that hold ``text[start:end]``."""
    cuts = [0, *(m.end() for m in _ENDS.finditer(text)), len(text)]
    ends = [*(m.start() for m in _ENDS.finditer(text)), len(text)]
    return max(c for c in cuts if c <= start), min(e for e in ends if e >= end)


def readable(
    facts: Sequence[Stated], given: frozenset[str], results: Sequence[Segment]
) -> list[Stated]:
    """The facts whose sentences were shown whole and that tell of something known: named in the
    question, or found by another of them. In the order in which they are reached."""
    shown: dict[str, int] = {}
    for segment in results:
        for hit in segment.hits:
            length = len(hit.passage.text)
            shown[hit.passage.id] = max(length, shown.get(hit.passage.id, 0))
    known, left = set(given), [f for f in facts if shown.get(f.passage, -1) >= f.end]
    reached: list[Stated] = []
    while new := [fact for fact in left if fact.nodes & known]:
        reached += new[:1]
        left.remove(new[0])
        known |= new[0].nodes
    return reached


def as_written(answers: Sequence[str], results: Sequence[Segment]) -> str:
    """The accepted answer that stands in what was shown, else the first."""
    texts = [hit.passage.text for segment in results for hit in segment.hits]
    return next((a for a in answers if any(a in text for text in texts)), answers[0])
