"""How a question's answer is reached, hop by hop, and the words a page states each hop in."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..types import Task
from ..worlds.world import World

QUOTE = 100
"""Most characters of a quote; a longer one is begun later."""
_SENTENCE = re.compile(r"[.!?] (?=[^a-z0-9])")
"""The end of a sentence, not of an abbreviation ("b. 22 May")."""


class Hop(NamedTuple):
    """One fact, walked from what is known to what is sought."""

    label: str
    """What is sought, in the schema's words: "+ publisher" for the publisher of something known;
    "- film composer" for a film whose composer is known."""
    passage: str
    """Id of the passage that states the fact."""
    end: int
    """Characters of the passage that must be shown for the fact to be read."""
    quote: str
    """The passage's own words for the fact, ending with its object."""
    found: str
    """What the hop leads to, as the passage writes it (or as it is titled)."""
    inverse: bool


def start_of(task: Task) -> str:
    """The name a question begins from: its one given node."""
    assert task.graph is not None
    given = [n.value for n in task.graph.nodes if n.given]
    if len(given) != 1:
        raise TaskError(f"task {task.id!r} gives {len(given)} names; expected a path from one")
    return given[0]


def hops_of(task: Task, world: World, corpus: GeneratedCorpus) -> tuple[Hop, ...]:
    """The hops of a simple or chain task, in order.

    ``TaskError`` for a task that is no path from one given name to its answer.
    """
    graph = task.graph
    if graph is None or graph.operation != "lookup":
        raise TaskError(f"task {task.id!r} is no path of facts: use the families simple and chain")
    start_of(task)
    here = next(n.id for n in graph.nodes if n.given)
    found: list[Hop] = []
    for edge in graph.edges:
        inverse = edge.object == here
        if not inverse and edge.subject != here:
            raise TaskError(f"task {task.id!r} is no path of facts: use the families simple, chain")
        found.append(_hop(edge.fact, edge.passage, inverse, world, corpus))
        here = edge.subject if inverse else edge.object
    return tuple(found)


def _hop(fact: int, passage: str, inverse: bool, world: World, corpus: GeneratedCorpus) -> Hop:
    row = world.fact(fact)
    prop = world.schema.properties[row.property]
    label = prop.name.removeprefix(f"{prop.source}_").replace("_", " ")
    where = corpus.position(passage)
    stated = next(s for s in corpus.statements(fact) if s.passage == where)
    text = corpus[where].text
    if inverse:
        noun = world.schema.types[world.schema.type_index(prop.source)].noun
        label, leads_to = f"- {noun} {label}", world.names[row.subject]
    else:
        label, leads_to = f"+ {label}", text[stated.start : stated.end]
    others = [
        s.end
        for s in corpus.stated_in(where)
        if s.end <= stated.start and world.fact(s.fact).property != row.property
    ]
    quote = _quote(text, max(others, default=0), stated.start, stated.end)
    return Hop(label, passage, stated.end, quote, leads_to, inverse)


def _quote(text: str, after: int, start: int, end: int) -> str:
    """The words from a sentence's beginning, or from the fact before, to the end of this fact."""
    ends = [m.end() for m in _SENTENCE.finditer(text, after, start)]
    begin = ends[-1] if ends else after
    while begin < start and not text[begin].isalnum():
        begin += 1
    if end - begin > QUOTE and begin < start:
        cut = text.find(" ", max(begin, end - QUOTE), start)
        begin = cut + 1 if cut >= 0 else start
    return text[begin:end]
