"""Hops from a question to its answer: the page that states each, and those that an agent has been
shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.types import GraphEdge, Segment, Task
from searchgym.worlds.schema import Schema
from searchgym.worlds.world import World


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
    label = label_of(world.schema, row.property, inverse)
    where = corpus.position(passage)
    stated = next(s for s in corpus.statements(fact) if s.passage == where)
    found = world.names[row.subject] if inverse else corpus[where].text[stated.start : stated.end]
    return Hop(label, passage, stated.end, found)


def label_of(schema: Schema, prop: int, inverse: bool) -> str:
    """The relation that is sought, in the schema's words (:attr:`Hop.label`)."""
    about = schema.properties[prop]
    label = about.name.removeprefix(f"{about.source}_").replace("_", " ")
    return (
        f"- {schema.types[schema.type_index(about.source)].noun} {label}"
        if inverse
        else f"+ {label}"
    )


def query(label: str, known: str) -> str:
    """The page of what is known states a forward hop; an inverse one stands elsewhere."""
    return f"{label[2:]} {known}" if label[0] == "-" else known


class Eyes:
    """Reads facts off search results; where pages can be opened, off opened pages only: results
    are then for choosing a page."""

    def __init__(self, made: SearchEnv) -> None:
        self._corpus = made.corpus
        self._opens = "access" in made.toolbox.tools

    def read(self, hops: Sequence[Hop], observed: Sequence[Segment]) -> int:
        """Count the hops, from the first, that can be read off what was observed."""
        shown = self.lengths(hops, observed)
        return next((i for i, h in enumerate(hops) if shown.get(h.passage, -1) < h.end), len(hops))

    def lengths(self, hops: Sequence[Hop], observed: Sequence[Segment]) -> Mapping[str, int]:
        """Characters shown of each passage, by its id; of opened pages, those of the hops."""
        if not self._opens:
            return {hit.passage.id: len(hit.passage.text) for s in observed for hit in s.hits}
        pages = [s.text for s in observed if s.kind == "page"]
        passages = {hop.passage: self._corpus.passage(hop.passage).text for hop in hops}
        return {p: len(t) for p, t in passages.items() if any(t in page for page in pages)}

    def to_open(self, hop: Hop, observed: Sequence[Segment]) -> str:
        """Title of the page that states a hop, if the newest results list it; else nothing."""
        if not self._opens or not observed:
            return ""
        hits = {hit.passage.id: hit.passage.title for hit in observed[-1].hits}
        return hits.get(hop.passage, "")


def observations(segments: Sequence[Segment]) -> list[Segment]:
    """Results and opened pages, in order."""
    return [s for s in segments if s.hits or s.kind == "page"]
