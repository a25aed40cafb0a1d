"""Proving tasks sound: unique, stated in the corpus, and retrievable with a given engine.

Generated tasks are proved one by one (after arXiv 2601.14615's edge filter); real questions, of
which only answers and gold passages are known, are for ``searchgym audit``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..corpora.corpus import GeneratedCorpus
from ..errors import EngineError, TaskError
from ..text import normalise_answer
from ..types import CallContext, Failure, GraphEdge, Query, Ranking, SearchEngine, Task
from ..worlds.rules import presumable, presumed
from ..worlds.world import Fact, World
from .context import Surfaces
from .solver import Solver


@dataclass(frozen=True, slots=True)
class Reject:
    task: Task
    reason: str
    """Reason of the rejection: "no graph", "not unique", "answer differs", "answerable", "not
    stated", "not certain", "wrong fact" or "not retrieved"."""
    detail: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Tasks that passed every proof, in order, and those that did not, with why."""

    kept: tuple[Task, ...]
    rejected: tuple[Reject, ...]
    k: int
    engine: str
    """Fingerprint of the engine the proof holds for."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Counts by family: "built", "kept" and one number per reason, families in order."""
        counts: dict[str, Counter[str]] = {}
        for task in (*self.kept, *(r.task for r in self.rejected)):
            counts.setdefault(task.family, Counter())["built"] += 1
        for task in self.kept:
            counts[task.family]["kept"] += 1
        for reject in self.rejected:
            counts[reject.task.family][reject.reason] += 1
        return {family: dict(sorted(c.items())) for family, c in sorted(counts.items())}

    def rate(self, family: str | None = None) -> float:
        """Share of tasks kept, overall or of a family; ``nan`` where there were none."""
        counts = self.counts()
        rows = list(counts.values()) if family is None else [counts.get(family, {})]
        built = sum(row.get("built", 0) for row in rows)
        return sum(row.get("kept", 0) for row in rows) / built if built else float("nan")

    def table(self) -> str:
        """One line per family: built, kept, share, reasons of rejection."""
        lines = [f"{'family':<14}{'built':>7}{'kept':>7}{'share':>8}  rejected because"]
        for family, row in self.counts().items():
            why = ", ".join(f"{r} {n}" for r, n in row.items() if r not in ("built", "kept"))
            kept = row.get("kept", 0)
            share = kept / row["built"]
            lines.append(f"{family:<14}{row['built']:>7}{kept:>7}{share:>8.1%}  {why or '–'}")
        return "\n".join(lines)


def verify(
    tasks: Iterable[Task],
    world: World,
    corpus: GeneratedCorpus,
    engine: SearchEngine,
    *,
    k: int = 3,
    exempt: Collection[str] = (),
    prover: Prover | None = None,
) -> AuditReport:
    """Prove every task: the solver finds its answer and no other (none at all for tasks to be
    refused); every used edge is the fact it claims to be and its passage states it within the
    recorded span; every evidence passage is among the top k of one of the task's gold queries.

    In kept tasks ``queries[i]`` finds ``evidence[i]``: where another gold query was the one that
    did, it takes the place. One engine call for all queries. Raises ``EngineError`` if one fails.

    Tasks without a reasoning graph are kept as they are if their family is in ``exempt`` and the
    corpus has their evidence; else they are rejected. ``prover``: one kept from tasks before.
    """
    todo = list(tasks)
    prover = prover or Prover(world, corpus)
    passages_of = _retrieve([q for t in todo for q in t.queries], engine, k)
    kept: list[Task] = []
    rejected: list[Reject] = []
    for task in todo:
        if task.graph is None and task.family in exempt:
            lacking = [passage for passage in task.evidence if passage not in corpus]
            if lacking:
                rejected.append(Reject(task, "not stated", f"no passage {lacking[0]!r}"))
            else:
                kept.append(task)
            continue
        why = prover.fault(task) or _unretrieved(task, passages_of)
        if why is None:
            kept.append(_aligned(task, passages_of))
        else:
            rejected.append(Reject(task, *why))
    return AuditReport(tuple(kept), tuple(rejected), k, engine.fingerprint)


class Prover:
    """Proves the graphs of tasks of one world; keep it to share its look-up tables."""

    def __init__(self, world: World, corpus: GeneratedCorpus) -> None:
        self._world, self._corpus = world, corpus
        self._solver = Solver(world)
        self._names = Surfaces(world)
        self._presumable = presumable(world.schema)

    @cached_property
    def _presumed(self) -> Solver:
        return Solver(presumed(self._world))

    def fault(self, task: Task) -> tuple[str, str] | None:
        if task.graph is None:
            return "no graph", "a task without a reasoning graph cannot be proved"
        try:
            answers = taken = self._solver.solve(task.graph)
            if any(edge.property in self._presumable for edge in task.graph.edges):
                taken = self._presumed.solve(task.graph)
        except TaskError as error:
            return "not unique", str(error)
        if taken != answers:
            return "not certain", f"what readers take for granted answers {taken!r:.80}"
        if task.should_abstain:
            if answers:
                return "answerable", f"the world holds {answers[0]!r}"
        elif len(answers) != 1:
            return "not unique", f"the solver finds {len(answers)} answers"
        elif normalise_answer(answers[0]) not in {normalise_answer(a) for a in task.answers}:
            return "answer differs", f"the solver finds {answers[0]!r}"
        values = {n.id: n for n in task.graph.nodes}
        for edge in task.graph.edges:
            if edge.fact < 0 and not edge.parts and task.should_abstain:
                continue  # what is asked for and not there
            given = {i: n.value for i, n in values.items() if n.given}
            problem = (self._implied if edge.parts else self._edge)(edge, given)
            if problem is not None:
                return problem
        return None

    def _implied(self, edge: GraphEdge, given: dict[str, str]) -> tuple[str, str] | None:
        """An edge that a rule implies: its parts are what the rule makes it follow from, and each
        is stated."""
        shown = f"{edge.subject} --{edge.property}--> {edge.object}"
        facts = {fact for fact, _ in edge.parts}
        if not all(0 <= fact < self._world.n_facts for fact in facts):
            return "wrong fact", f"{shown}: the world has no such parts: {sorted(facts)}"
        from ..worlds.rules import derived

        world = derived(self._world)
        rows = [world.fact(fact) for fact in facts]
        ends = {row.subject for row in rows}
        whole = [
            fact
            for entity in sorted(ends | {r.object for r in rows if world.prop(r).is_relation})
            for fact in world.facts_of(entity)
            if world.prop(fact).name == edge.property and {*world.parts(fact.id)} == facts
        ]
        for fact in whole:
            titles = (world.titles[fact.subject], world.titles[fact.object])
            if titles == tuple(
                given.get(node, title)
                for node, title in zip((edge.subject, edge.object), titles, strict=True)
            ):
                break
        else:
            return "wrong fact", f"{shown}: does not follow from {sorted(facts)}"
        for part, passage in edge.parts:
            problem = self._stated(self._world.fact(part), passage, shown)
            if problem is not None:
                return problem
        return None

    def _edge(self, edge: GraphEdge, given: dict[str, str]) -> tuple[str, str] | None:
        shown = f"{edge.subject} --{edge.property}--> {edge.object}"
        if not 0 <= edge.fact < self._world.n_facts:
            return "wrong fact", f"{shown}: the world has no fact {edge.fact}"
        fact = self._world.fact(edge.fact)
        ends = (self._world.titles[fact.subject], self._names.text(fact.property, fact.object))
        expected = (given.get(edge.subject, ends[0]), given.get(edge.object, ends[1]))
        if self._world.prop(fact).name != edge.property or ends != expected:
            return "wrong fact", f"{shown}: fact {edge.fact} says {ends[0]} … {ends[1]}"
        return self._stated(fact, edge.passage, shown)

    def _stated(self, fact: Fact, passage: str, shown: str) -> tuple[str, str] | None:
        if passage not in self._corpus:
            return "not stated", f"{shown}: the corpus has no passage {passage!r}"
        where = self._corpus.position(passage)
        text = self._corpus[where].text.lower()
        surfaces = self._names.value_answers(fact.property, fact.object)
        if where != int(self._corpus.page_of[fact.subject]):  # there the object may be a pronoun
            surfaces = (*surfaces, *self._names.entity_answers(fact.subject))
        for statement in self._corpus.statements(fact.id):
            if statement.passage == where:
                span = text[statement.start : statement.end]
                if any(surface.lower() in span for surface in surfaces):
                    return None
        return "not stated", f"{shown}: no span of {passage!r} states fact {fact.id}"


def _retrieve(texts: Sequence[str], engine: SearchEngine, k: int) -> dict[str, frozenset[str]]:
    distinct = list(dict.fromkeys(texts))
    batch = [Query(t, k, CallContext(i, "audit", {})) for i, t in enumerate(distinct)]
    passages_of: dict[str, frozenset[str]] = {}
    for text, result in zip(distinct, engine.run(batch), strict=True):
        if isinstance(result, Failure):
            raise EngineError(f"query {text!r} failed ({result.kind}): {result.message}")
        ranking: Ranking = result
        passages_of[text] = frozenset(hit.passage.id for hit in ranking)
    return passages_of


def _unretrieved(task: Task, passages_of: dict[str, frozenset[str]]) -> tuple[str, str] | None:
    seen: frozenset[str] = frozenset().union(*(passages_of[q] for q in task.queries))
    for passage in task.evidence:
        if passage not in seen:
            return "not retrieved", f"no gold query finds {passage!r}"
    return None


def _aligned(task: Task, passages_of: dict[str, frozenset[str]]) -> Task:
    """The task with, for each evidence passage, a gold query that finds it."""
    queries = tuple(
        query
        if passage in passages_of[query]
        else next(q for q in task.queries if passage in passages_of[q])
        for passage, query in zip(task.evidence, task.queries, strict=True)
    )
    return task if queries == task.queries else replace(task, queries=queries)
