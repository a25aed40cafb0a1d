"""Walks over a knowledge graph: neighbours within two hops, and shortest paths.

Facts are walked in both directions; values (dates, numbers) are never walked through. Over the
graph's own arrays: ``networkx`` would need a second copy of the graph (a kilobyte an entity), and
leaves open which of several shortest paths it gives.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from ..errors import EngineError
from .graph import IntArray, KnowledgeGraph

MAX_HOPS = 2


class Neighbour(NamedTuple):
    """An entity near another. ``facts``: for one hop all that join the two (rows, ascending); for
    two hops the first of each half. ``ways``: facts that join them, or entities in between."""

    entity: int
    facts: tuple[int, ...]
    ways: int


def neighbours(
    graph: KnowledgeGraph,
    entity: int,
    *,
    relation: int | None = None,
    hops: int = 1,
    k: int | None = None,
) -> list[Neighbour]:
    """Entities exactly ``hops`` (1 or 2) away: two hops exclude the entity itself and its
    neighbours. ``relation``: walk only facts of it. Most ``ways`` first, ties by number; the first
    ``k``. Raises ``EngineError`` for other numbers of hops."""
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
    return ranked if k is None else ranked[: max(k, 0)]


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
