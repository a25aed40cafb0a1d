"""Finds how a question's answer is reached, hop by hop, and where a page states each hop."""

from __future__ import annotations

from typing import NamedTuple

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..types import GraphEdge, Task
from ..worlds.world import World


class Hop(NamedTuple):
    """One fact, walked from what is known to what is sought."""

    label: str
    """The relation that is sought, in the schema's words: "+ publisher" for the publisher of
    something known; "- film composer" for a film whose composer is known."""
    passage: str
    """Id of the passage that states the fact."""
    end: int
    """Characters of the passage that must be shown for the fact to be read."""
    found: str
    """The object of the hop, as the passage writes it (or as it is titled)."""


def start_of(task: Task) -> str:
    """The name a question begins from: its one given node."""
    assert task.graph is not None
    given = [n.value for n in task.graph.nodes if n.given]
    if len(given) != 1:
        raise TaskError(f"task {task.id!r} gives {len(given)} names; expected a path from one")
    return given[0]


def walked(task: Task) -> list[tuple[GraphEdge, bool]]:
    """The facts of a simple or chain task in order, each with whether it is walked from its object
    to its subject. ``TaskError`` for a task that is no path from one given name."""
    graph = task.graph
    if graph is None or graph.operation != "lookup" or not graph.edges:
        raise TaskError(f"task {task.id!r} is no path of facts: use the families simple and chain")
    start_of(task)
    here = next(n.id for n in graph.nodes if n.given)
    steps: list[tuple[GraphEdge, bool]] = []
    for edge in graph.edges:
        if edge.parts:
            raise TaskError(
                f"task {task.id!r} uses {edge.property!r}, which no page states: use the families "
                "simple and chain, not the derived ones"
            )
        inverse = edge.object == here
        if not inverse and edge.subject != here:
            raise TaskError(
                f"task {task.id!r} is no path of facts: use the families simple and chain"
            )
        steps.append((edge, inverse))
        here = edge.subject if inverse else edge.object
    return steps


def hops_of(task: Task, world: World, corpus: GeneratedCorpus) -> tuple[Hop, ...]:
    """The hops of a simple or chain task, in order; ``TaskError`` for other tasks."""
    return tuple(
        hop_of(edge.fact, edge.passage, inverse, world, corpus) for edge, inverse in walked(task)
    )


def hop_of(fact: int, passage: str, inverse: bool, world: World, corpus: GeneratedCorpus) -> Hop:
    """A fact (its row in the world) as a passage states it, walked forward or backward."""
    row = world.fact(fact)
    prop = world.schema.properties[row.property]
    label = prop.name.removeprefix(f"{prop.source}_").replace("_", " ")
    where = corpus.position(passage)
    stated = next(s for s in corpus.statements(fact) if s.passage == where)
    if inverse:
        noun = world.schema.types[world.schema.type_index(prop.source)].noun
        return Hop(f"- {noun} {label}", passage, stated.end, world.names[row.subject])
    stated_text = corpus[where].text[stated.start : stated.end]
    return Hop(f"+ {label}", passage, stated.end, stated_text)
