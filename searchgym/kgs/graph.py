"""A knowledge graph in NumPy columns: facts by head, facts by tail, and adjacency."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError

IntArray = NDArray[np.int64]
NO_TAIL = -1


class Triple(NamedTuple):
    """``head --relation--> tail``. ``id``: its row in the graph's columns. ``tail`` is an entity,
    or ``NO_TAIL`` for a value (a date, a number), which then stands in ``value``."""

    id: int
    head: int
    relation: int
    tail: int
    value: str


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities 0..N-1 and facts 0..F-1 sorted by (head, relation, tail).

    Made by :mod:`searchgym.kgs.build` and :mod:`searchgym.kgs.files`. Values are leaves: they are
    looked up, but no walk goes through them (or everybody born in 1931 would be acquainted).
    """

    name: str
    ids: Sequence[str]
    """Ids of the entities, unique, as the source has them."""
    titles: Sequence[str]
    """Unique names: what results print, and what an agent can say back."""
    labels: Sequence[str]
    """Names (N,) of the entities; homonyms share a label."""
    aliases: Sequence[tuple[str, ...]]
    descriptions: Sequence[str]
    """A sentence or "" each."""
    relations: Sequence[str]
    """Relations as the source writes them: "/film/film/genre", "date_of_birth"."""
    relation_words: Sequence[str]
    """The same in words, unique: "genre", "date of birth"."""
    values: Sequence[str]
    head: IntArray  # (F,)
    relation: IntArray  # (F,)
    tail: IntArray  # (F,) an entity, or ~v for the value values[v]
    source: IntArray  # (F,) row in what the graph was made from (a world's fact)
    indptr: IntArray  # (N + 1,) facts of entity e are indptr[e]:indptr[e + 1]

    @property
    def n_entities(self) -> int:
        return len(self.ids)

    @property
    def n_facts(self) -> int:
        return len(self.head)

    @property
    def n_edges(self) -> int:
        """Facts that join two entities."""
        return int((self.tail >= 0).sum())

    def triple(self, fact: int) -> Triple:
        tail = int(self.tail[fact])
        value = "" if tail >= 0 else self.values[~tail]
        return Triple(
            fact, int(self.head[fact]), int(self.relation[fact]), max(tail, NO_TAIL), value
        )

    def facts(self, entity: int, relation: int | None = None) -> list[Triple]:
        """Facts whose head is ``entity`` (and that have this relation), by relation then tail."""
        lo, hi = int(self.indptr[entity]), int(self.indptr[entity + 1])
        if relation is not None:
            bounds = np.searchsorted(self.relation[lo:hi], [relation, relation + 1])
            lo, hi = lo + int(bounds[0]), lo + int(bounds[1])
        return [self.triple(i) for i in range(lo, hi)]

    def facts_about(self, entity: int, relation: int | None = None) -> list[Triple]:
        """Facts whose tail is ``entity`` (and that have this relation), by relation then head."""
        order, indptr = self._by_tail
        rows = order[int(indptr[entity]) : int(indptr[entity + 1])]
        if relation is not None:
            rows = rows[self.relation[rows] == relation]
        return [self.triple(i) for i in rows.tolist()]

    @cached_property
    def _by_tail(self) -> tuple[IntArray, IntArray]:
        rows = np.flatnonzero(self.tail >= 0)
        order = rows[np.lexsort((self.head[rows], self.relation[rows], self.tail[rows]))]
        return order, _starts(self.tail[order], self.n_entities)

    @cached_property
    def adjacency(self) -> tuple[IntArray, IntArray, IntArray]:
        """``(indptr, other, fact)``: facts between two different entities, from both ends.

        Those of entity e are ``indptr[e]:indptr[e + 1]``, sorted by (other, fact). Shapes: (N + 1,)
        and (2 E,) twice. A fact about itself joins nothing and is left out.
        """
        rows = np.flatnonzero((self.tail >= 0) & (self.tail != self.head))
        here = np.concatenate((self.head[rows], self.tail[rows]))
        other = np.concatenate((self.tail[rows], self.head[rows]))
        fact = np.concatenate((rows, rows))
        order = np.lexsort((fact, other, here))
        return _starts(here[order], self.n_entities), other[order], fact[order]

    @cached_property
    def degree(self) -> IntArray:
        """(N,) facts that join an entity to others."""
        return np.diff(self.adjacency[0])

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex, 16 characters) over facts and names: equal graphs, equal digests."""
        h = hashlib.sha256()
        for column in (self.head, self.relation, self.tail, self.source):
            h.update(np.ascontiguousarray(column, "<i8").data)
        texts = (self.ids, self.titles, self.labels, self.descriptions, self.relations, self.values)
        for column_of_text in texts:
            for text in column_of_text:
                h.update(text.encode("utf-8", "surrogatepass") + b"\0")
            h.update(b"\1")
        for names in self.aliases:
            h.update("\0".join(names).encode("utf-8", "surrogatepass") + b"\1")
        return h.hexdigest()[:16]

    def in_words(self, triple: Triple) -> str:
        """One fact in words: "Inception — director: Christopher Nolan"."""
        tail = triple.value if triple.tail < 0 else self.titles[triple.tail]
        return f"{self.titles[triple.head]} — {self.relation_words[triple.relation]}: {tail}"


def _starts(keys: IntArray, n: int) -> IntArray:
    """(n + 1,) places at which each key 0..n-1 begins in the sorted ``keys``."""
    return np.searchsorted(keys, np.arange(n + 1))


MAX_HOPS = 2


class Neighbour(NamedTuple):
    """An entity near another. ``facts``: for one hop all that join the two (rows, ascending); for
    two hops the first of each half. ``ways``: facts that join them, or entities in between."""

    entity: int
    facts: tuple[int, ...]
    ways: int


def neighbours(
    graph: KnowledgeGraph, entity: int, *, relation: int | None = None, hops: int = 1
) -> list[Neighbour]:
    """Entities exactly ``hops`` (1 or 2) away: two hops exclude the entity itself and its
    neighbours. ``relation``: walk only facts of it. Most ``ways`` first, ties by number.
    Raises ``EngineError`` for other numbers of hops."""
    if hops not in range(1, MAX_HOPS + 1):
        raise EngineError(f"hops must be 1 or {MAX_HOPS}, got {hops}")
    near, facts = _joined(graph, entity, relation)
    if hops == 1:
        facts_to: dict[int, list[int]] = {}
        for other, fact in zip(near.tolist(), facts.tolist(), strict=True):
            facts_to.setdefault(other, []).append(fact)
        ranked = [Neighbour(e, tuple(f), len(f)) for e, f in facts_to.items()]
    else:
        ranked = _two_hops(graph, entity, relation, near, facts)
    ranked.sort(key=lambda n: (-n.ways, n.entity))
    return ranked


def _two_hops(
    graph: KnowledgeGraph, entity: int, relation: int | None, near: IntArray, facts: IntArray
) -> list[Neighbour]:
    middles, first = np.unique(near, return_index=True)
    shut = {entity, *middles.tolist()}
    pair_to: dict[int, tuple[int, int]] = {}
    ways: dict[int, int] = {}
    for middle, at in zip(middles.tolist(), first.tolist(), strict=True):
        others, second = _joined(graph, middle, relation)
        unique, where = np.unique(others, return_index=True)
        for other, row in zip(unique.tolist(), second[where].tolist(), strict=True):
            if other not in shut:
                ways[other] = ways.get(other, 0) + 1
                pair_to.setdefault(other, (int(facts[at]), row))
    return [Neighbour(e, pair, ways[e]) for e, pair in pair_to.items()]


def _joined(graph: KnowledgeGraph, entity: int, relation: int | None) -> tuple[IntArray, IntArray]:
    """(others, facts) of an entity's facts with other entities, sorted by (other, fact)."""
    indptr, other, fact = graph.adjacency
    lo, hi = int(indptr[entity]), int(indptr[entity + 1])
    others, facts = other[lo:hi], fact[lo:hi]
    if relation is not None:
        kept = graph.relation[facts] == relation
        others, facts = others[kept], facts[kept]
    return others, facts


def shortest_path(
    graph: KnowledgeGraph, start: int, goal: int, *, max_len: int | None = None
) -> list[int] | None:
    """Facts (rows) of a shortest path, in order from ``start``; [] if both are one; None if there
    is none (of at most ``max_len`` facts). Of several, the one whose entities have the least
    numbers, step by step, and of parallel facts the first."""
    if start == goal:
        return []
    if max_len is not None and max_len < 1:
        return None
    distance = _distances(graph, goal, start, max_len)
    if start not in distance:
        return None
    path: list[int] = []
    here = start
    while here != goal:
        others, facts = _joined(graph, here, None)
        left = distance[here] - 1
        at = next(i for i, e in enumerate(others.tolist()) if distance.get(e) == left)
        path.append(int(facts[at]))
        here = int(others[at])
    return path


def _distances(graph: KnowledgeGraph, origin: int, until: int, limit: int | None) -> dict[int, int]:
    """Distances from ``origin``, breadth first, up to ``until``'s (or ``limit``)."""
    indptr, other, _ = graph.adjacency
    distance = {origin: 0}
    queue = deque([origin])
    while queue:
        here = queue.popleft()
        d = distance[here] + 1
        if until in distance or (limit is not None and d > limit):
            break
        for e in other[int(indptr[here]) : int(indptr[here + 1])].tolist():
            if e not in distance:
                distance[e] = d
                queue.append(e)
    return distance


def path_entities(graph: KnowledgeGraph, start: int, path: list[int]) -> list[int]:
    """The entities along a path of :func:`shortest_path`, ``start`` first."""
    entities = [start]
    for fact in path:
        head, tail = int(graph.head[fact]), int(graph.tail[fact])
        entities.append(tail if head == entities[-1] else head)
    return entities
