"""Small worlds with tasks of the families that share constraint graphs, and plain nested loops that
solve them again, without one constraint where asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import networkx as nx

from searchgym.tasks import build_tasks
from searchgym.types import GraphEdge, ReasoningGraph, Task
from searchgym.worlds import World
from tests.tasks import brute
from tests.tasks.tiny import make_corpus, random_world

COUNTS = {"infoseek": 8, "bmgq": 8, "redsearcher": 6, "medresearcher": 8, "asearcher": 9}


def built(
    seed: int = 0, counts: Mapping[str, Any] = COUNTS, **options: Any
) -> tuple[World, Any, list[Task]]:
    """A random world, its passages, and tasks of every family."""
    world = random_world(seed, people=80, films=70, cities=15)
    corpus = make_corpus(world)
    asked = {n: {"count": c, **options} if options else c for n, c in counts.items()}
    return world, corpus, build_tasks(world, corpus, counts={**asked, "at_most": True}, seed=seed)


def edges(task: Task) -> tuple[GraphEdge, ...]:
    assert task.graph is not None
    return task.graph.edges


def answers(graph: ReasoningGraph, world: World, without: GraphEdge | None = None) -> set[str]:
    """Answers by nested loops over all facts; without a constraint, what hung on it alone goes,
    too."""
    joined = nx.Graph((e.subject, e.object) for e in graph.edges if e is not without)
    answer = graph.operation.partition(":")[2].split(",")[0] or graph.answer
    if answer not in joined:
        return {world.titles[e] for e in range(world.n_entities)}
    kept = nx.node_connected_component(joined, answer)
    left = [e for e in graph.edges if e is not without and e.subject in kept]
    given = {n.id for n in graph.nodes if n.given}
    order: list[GraphEdge] = []
    known = set(given)
    while left:  # what touches something known comes first, so that the loops stay small
        edge = next((e for e in left if {e.subject, e.object} & known), left[0])
        left.remove(edge)
        order.append(edge)
        known |= {edge.subject, edge.object}
    bindings = brute.bindings(replace(graph, edges=tuple(order)), world, frozenset())
    spans = graph.operation.partition(":")[2].split(",")[1:]
    read = {n.id: n for n in graph.nodes}
    for node, low, high in zip(*[iter(spans)] * 3, strict=True):
        if node in kept:
            ends = [_raw(world, read[end].type, read[end].value) for end in (low, high)]
            bindings = [b for b in bindings if ends[0] <= b[node][1] <= ends[1]]
    return {b[answer][2] for b in bindings}


def _raw(world: World, prop: str, text: str) -> int:
    index = world.schema.property_index(prop)
    values = world.object_of[world.property_of == index].tolist()
    return next(v for v in values if brute.text(world, index, v) == text)
