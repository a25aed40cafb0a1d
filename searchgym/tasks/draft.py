"""Drafts of tasks before they are put into words, their difficulty, and the protocol of families.

Difficulty is measured after REDSearcher (arXiv 2602.14234): treewidth of the constraint graph, and
the least number of passages that jointly state every used fact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..corpora.corpus import Corpus
from ..types import Difficulty, GraphEdge, GraphNode, ReasoningGraph, Task
from ..worlds.world import Fact
from .context import Context, FactGroup, Path, PathStep, backward, forward
from .wording import Voice


def treewidth(edges: Iterable[tuple[str, str]]) -> int:
    """Treewidth of the undirected simple graph with these edges; loops and repeats are ignored.

    A node of least degree is eliminated again and again: exact up to width 2, where there always is
    one of at most two neighbours, and an upper bound beyond, which no shipped family reaches. 0 for
    a graph without edges.
    """
    near: dict[str, set[str]] = {}
    for a, b in edges:
        if a != b:
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
    width = 0
    while near:
        node = min(near, key=lambda node: len(near[node]))
        around = near.pop(node)
        width = max(width, len(around))
        for other in around:
            near[other] = (near[other] | around) - {node, other}
    return width


EXACT_DOCUMENTS = 15

D = TypeVar("D", bound=Hashable)


def minimal_cover(stated: Sequence[Collection[D]]) -> tuple[D, ...]:
    """Documents that jointly cover every fact; ``stated[i]`` lists those that state fact i.

    A least cover (exact up to ``EXACT_DOCUMENTS`` distinct documents, else greedy), in the order
    in which the documents first occur. ``ValueError`` if a fact is stated nowhere.
    """
    documents: dict[D, int] = {}
    for i, where in enumerate(stated):
        if not where:
            raise ValueError(f"fact {i} is stated in no document, so no cover exists")
        for document in where:
            documents[document] = documents.get(document, 0) | 1 << i
    everything = (1 << len(stated)) - 1
    if len(documents) > EXACT_DOCUMENTS:
        return _greedy(documents, everything)
    # what only one document states is read there: such documents are in every cover
    forced = {next(iter(where)) for where in stated if len(set(where)) == 1}
    free = [document for document in documents if document not in forced]
    for size in range(len(free) + 1):
        for chosen in combinations(free, size):
            covered = 0
            for document in (*forced, *chosen):
                covered |= documents[document]
            if covered == everything:
                return tuple(d for d in documents if d in forced or d in chosen)
    raise AssertionError("unreachable: all documents together cover every fact")


def _greedy(documents: dict[D, int], everything: int) -> tuple[D, ...]:
    chosen: list[D] = []
    left = everything
    while left:
        best = max(documents, key=lambda d: (documents[d] & left).bit_count())
        chosen.append(best)
        left &= ~documents[best]
    return tuple(d for d in documents if d in chosen)


Render = Callable[[Voice], str]


@dataclass(frozen=True, slots=True)
class Draft:
    """A task without its wording. ``render`` writes the question with a given voice."""

    family: str
    graph: ReasoningGraph
    answers: tuple[str, ...]
    evidence: tuple[str, ...]
    queries: tuple[str, ...]
    difficulty: Difficulty
    render: Render
    shape: str
    """Kind within the family ("a-or-b", "yes-no"), recorded in the task's meta."""
    should_abstain: bool = False
    items: tuple[tuple[str, ...], ...] = ()
    """Members of a set answer, each by its accepted forms."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the task's meta."""

    @property
    def signature(self) -> tuple[object, ...]:
        """Signature of the question; equal ones ask the same thing, in whatever order or words."""
        nodes = {n.id: (n.value if n.given else "?") for n in self.graph.nodes}
        edges = sorted(
            (nodes[e.subject], e.property, nodes[e.object], e.fact) for e in self.graph.edges
        )
        return (self.family, self.shape, self.graph.operation.split(":")[0], tuple(edges))


class Sketch:
    """Builds a draft's graph, evidence and queries from paths."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._nodes: list[GraphNode] = []
        self._edges: list[GraphEdge] = []
        self._given: dict[int, str] = {}
        self._evidence: dict[str, str] = {}
        self._stated: list[list[int]] = []
        self._links: list[tuple[str, str, int]] = []
        self.named: list[int] = []
        self.unnamed: list[int] = []

    def entity(self, entity: int, *, given: bool = False) -> str:
        """A node for an entity; given entities share one node."""
        if given and entity in self._given:
            return self._given[entity]
        kind = self._ctx.schema.types[int(self._ctx.world.type_of[entity])].name
        node = self._add(kind, self._ctx.names.title(entity), given)
        if given:
            self._given[entity] = node
            self.named.append(entity)
        else:
            self.unnamed.append(entity)
        return node

    def value(self, prop: int, value: int, *, given: bool = False) -> str:
        """A node for an attribute's value; its type is the attribute's name."""
        return self._add(self._ctx.prop(prop).name, self._ctx.names.text(prop, value), given)

    def unknown(self, prop: int, inverse: bool) -> str:
        """A node for something the world does not hold (unanswerable questions)."""
        about = self._ctx.prop(prop)
        kind = about.source if inverse else about.target or about.name
        return self._add(kind, "", False)

    def _add(self, kind: str, value: str, given: bool) -> str:
        node = GraphNode(f"n{len(self._nodes)}", kind, value, given)
        self._nodes.append(node)
        return node.id

    def path(self, path: Path, end: str | None = None, last_query: str | None = None) -> str:
        """Nodes, edges and evidence of a path; returns its last node (``end`` if handed in).

        ``last_query`` replaces the query of the last step.
        """
        nodes = self.steps(path, end, last_query)
        return nodes[-1] if nodes else self.entity(path.start, given=True)

    def steps(self, path: Path, end: str | None = None, last_query: str | None = None) -> list[str]:
        """Draw like :meth:`path`, but return the node that each step leads to."""
        nodes = []
        here, node = path.start, self.entity(path.start, given=True)
        for i, step in enumerate(path.steps):
            last = i == len(path.steps) - 1
            if last and end is not None:
                after = end
            elif step.inverse or self._ctx.prop(step.property).is_relation:
                after = self.entity(step.value)
            else:
                after = self.value(step.property, step.value)
            query = last_query if last and last_query else self.query(here, step)
            self.edge(node, step, after, query)
            here, node = step.value, after
            nodes.append(node)
        return nodes

    def edge(
        self, near: str, step: PathStep, far: str, query: str, page: int | None = None
    ) -> None:
        """A used fact, walked from ``near`` to ``far``; evidence is the page it is taken from, by
        default its subject's own.

        Several facts may fill one constraint (the members of a group): they repeat the edge.
        """
        subject, obj = (far, near) if step.inverse else (near, far)
        if step.fact >= self._ctx.world.stated:
            self._implied(subject, obj, step)
            return
        self._links.append((near, far, 1))
        page = self._ctx.page(step.fact) if page is None else page
        passage = self._ctx.corpus[page].id
        name = self._ctx.prop(step.property).name
        self._edges.append(GraphEdge(subject, name, obj, step.fact, passage))
        self._stated.append(self._ctx.passages(step.fact))
        self._evidence.setdefault(passage, query)

    def _implied(self, subject: str, obj: str, step: PathStep) -> None:
        """A fact that a rule implies: its evidence are the pages of its parts, in the order in
        which they can be found by who knows the near end."""
        ctx = self._ctx

        def objects(fact: Fact) -> set[int]:
            return {fact.object} if ctx.prop(fact.property).is_relation else set()

        whole = ctx.world.fact(step.fact)
        depth = {whole.object if step.inverse else whole.subject: 0}
        deepest = 0
        parts: list[tuple[int, str]] = []
        left = [ctx.world.fact(part) for part in ctx.world.parts(step.fact)]
        while left:
            fact = next(f for f in left if f.subject in depth or depth.keys() & objects(f))
            left.remove(fact)
            walked = forward(fact) if fact.subject in depth else backward(fact)
            near_end = fact.object if walked.inverse else fact.subject
            deepest = max(deepest, depth[near_end] + 1)
            query = self.query(near_end, walked)
            passage = ctx.corpus[ctx.page(fact.id)].id
            parts.append((fact.id, passage))
            self._stated.append(ctx.passages(fact.id))
            self._evidence.setdefault(passage, query)
            for entity in (fact.subject, *objects(fact)):
                depth.setdefault(entity, depth[near_end] + 1)
        name = ctx.prop(step.property).name
        self._edges.append(GraphEdge(subject, name, obj, -1, "", tuple(parts)))
        near, far = (obj, subject) if step.inverse else (subject, obj)
        self._links.append((near, far, deepest))

    def absent(self, near: str, prop: int, inverse: bool, far: str) -> None:
        """An edge the question asks about and the world does not hold."""
        subject, obj = (far, near) if inverse else (near, far)
        self._edges.append(GraphEdge(subject, self._ctx.prop(prop).name, obj, -1, ""))

    def look_at(self, entity: int) -> None:
        """Evidence that states no used fact: the page on which an absent fact would stand."""
        page = int(self._ctx.corpus.page_of[entity])
        self._evidence.setdefault(self._ctx.corpus[page].id, self._ctx.names.title(entity))

    def query(self, known: int, step: PathStep) -> str:
        """Query of an agent that knows one end of a step: the name of the page that states the
        fact; or, where only the object is known, its name and what is sought."""
        title = self._ctx.names.title(known)
        if not step.inverse:
            return title
        prop = self._ctx.prop(step.property)
        source = self._ctx.schema.types[self._ctx.schema.type_index(prop.source)].noun
        return f"{source} {self._ctx.label(step.property)} {title}"

    def group(self, group: FactGroup, near: str, far: str) -> None:
        """Edges for every member of a group. Its subjects are searched in two ways by turns."""
        for i, fact in enumerate(group.facts):
            step = backward(fact) if group.inverse else forward(fact)
            query = self.query(group.anchor, step)
            if group.inverse and i % 2 == 0:
                source = self._ctx.prop(group.relation).source
                noun = self._ctx.schema.types[self._ctx.schema.type_index(source)].noun
                query = f"{self._ctx.names.title(group.anchor)} {noun}"
            self.edge(near, step, far, query)

    def _longest(self) -> int:
        far: dict[str, int] = {}
        for near, end, facts in self._links:
            far[end] = max(far.get(end, 0), far.get(near, 0) + facts)
        return max(far.values())

    @property
    def hidden(self) -> bool:
        return self._ctx.hidden(self.named, self.unnamed)

    def finish(
        self,
        family: str,
        *,
        shape: str,
        answers: tuple[str, ...],
        render: Render,
        hops: int,
        branches: int = 1,
        answer: str = "",
        operation: str = "lookup",
        should_abstain: bool = False,
        items: tuple[tuple[str, ...], ...] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Draft:
        graph = ReasoningGraph(tuple(self._nodes), tuple(self._edges), answer, operation)
        if any(edge.parts for edge in self._edges):
            hops = self._longest()
        width = treewidth((e.subject, e.object) for e in self._edges)
        spread = len(minimal_cover(self._stated))
        return Draft(
            family, graph, answers, tuple(self._evidence), tuple(self._evidence.values()),
            Difficulty(hops, branches, width, spread), render, shape, should_abstain, items,
            meta or {},
        )  # fmt: skip


# --- proofs -----------------------------------------------------------------------------------
Rows = Collection[tuple[int, ...]]
"""Values of the nodes that an operation names, one row a solution of the graph."""
Operation = Callable[[Rows, Callable[[int, int], str]], Iterable[str]]
"""Answers from the rows, given the text of (place in the row, value); none: unanswerable."""
OPERATIONS: dict[str, Operation] = {}
"""Name → what a graph's ``operation`` of that name makes of its solutions."""


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register a function as what an operation of a reasoning graph computes."""

    def mark(compute: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, compute))
        return compute

    return mark


@operation("lookup", "join")
def _texts(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    """The named nodes of each solution: "X and Y"."""
    return {" and ".join(text(place, value) for place, value in enumerate(row)) for row in rows}


# --- families ---------------------------------------------------------------------------------
SAME_ANSWER = 0.04


class Propose(Protocol):
    """Proposes tasks about a world, one by one.

    ``ctx`` holds the world (``ctx.world``), its passages (``ctx.corpus``) and look-ups over both.
    ``rng`` is the family's own random stream: proposals may depend on it, ``ctx`` and ``turn``
    alone, so that a seed always gives the same tasks. ``turn`` counts the tasks kept so far and
    steers what should alternate (hops, who wins a comparison).

    Returns a :class:`~searchgym.tasks.draft.Draft` (graph, evidence and how it is put into words),
    a ready :class:`~searchgym.types.Task` (its id, family and split are set later), or None to be
    asked again.
    """

    def __call__(
        self, ctx: Context, rng: np.random.Generator, turn: int, /
    ) -> Draft | Task | None: ...


class Asked(NamedTuple):
    """Tasks that a family asks of a corpus, and what is then searched."""

    tasks: Sequence[Task]
    corpus: Corpus
    """The corpus that was given, or one without what its tasks withhold or with what they add."""


class Ask(Protocol):
    """Asks of a text corpus or a knowledge graph (a :class:`~searchgym.kgs.corpus.KGCorpus`).

    ``number`` tasks of a split ("train", "dev", "test") at most, the same for the same arguments;
    ``search(queries, k)`` is BM25 over the corpus. ``TaskError`` for a corpus that does not do.
    """

    def __call__(
        self, corpus: Corpus, number: int, *, split: str, search: Callable[..., Any]
    ) -> Asked: ...


@dataclass(frozen=True, slots=True)
class Family:
    """A named family."""

    name: str
    propose: Propose
    same_answer: float = SAME_ANSWER
    """Largest share of the family's tasks that may have one and the same answer."""
    proofs: bool = False
    """True if every task must be proved: the solver finds its answer and no other, passages state
    its facts, queries find them. Without, tasks that bring a reasoning graph are proved, and others
    are taken as they are."""
    ask: Ask | None = None
    """Asks of what is no generated world: the method ``ask`` of a family's class."""


F = TypeVar("F", bound=Callable[..., Any])


def family(*, same_answer: float = SAME_ANSWER, proofs: bool = True) -> Callable[[F], F]:
    """Mark a function as a task family, with the properties of :class:`Family`."""

    def mark(propose: F) -> F:
        propose.same_answer, propose.proofs = same_answer, proofs  # type: ignore[attr-defined]
        return propose

    return mark
