"""How a question's answer is reached, hop by hop, and the words a page states each hop in."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..types import GraphEdge, Task
from ..worlds.world import World

NEAR = 3
"""Words quoted before an object where none of its sentence's is telling."""
AFTER = 4
"""Words quoted after an object that opens its sentence."""
_SENTENCE = re.compile(r"[.!?] (?=[^a-z0-9])")
"""The end of a sentence, not of an abbreviation ("b. 22 May")."""
_WORD = re.compile(r"[^\s(]+")
_TELLING = re.compile(r"(?!(?:with|from|that|this|into|have|been|were|also)\b)[a-z]{4,}")
"""A word that may say which fact this is; names and small words do not."""


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
    """The passage's own words for the fact, from a telling word to its object."""
    found: str
    """What the hop leads to, as the passage writes it (or as it is titled)."""
    named: bool
    """Whether the quote does not end with ``found``, which must be named after it: the hop is
    inverse, or its object opens the sentence."""


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
    found: list[tuple[GraphEdge, bool]] = []
    for edge in graph.edges:
        inverse = edge.object == here
        if not inverse and edge.subject != here:
            raise TaskError(
                f"task {task.id!r} is no path of facts: use the families simple and chain"
            )
        found.append((edge, inverse))
        here = edge.subject if inverse else edge.object
    return found


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
    text = corpus[where].text
    if inverse:
        noun = world.schema.types[world.schema.type_index(prop.source)].noun
        label, leads_to = f"- {noun} {label}", world.names[row.subject]
    else:
        label, leads_to = f"+ {label}", text[stated.start : stated.end]
    others = (s.end for s in corpus.stated_in(where) if s.end <= stated.start)
    quote, opens = _quote(
        text, stated.start, stated.end, max(others, default=0), world.names[row.subject]
    )
    if inverse and opens:
        quote = text[stated.start : stated.end]  # the known name is telling enough
    return Hop(label, passage, stated.end, quote, leads_to, inverse or opens)


def _quote(text: str, start: int, end: int, before: int, subject: str) -> tuple[str, bool]:
    """The words that state a fact, and whether they stand after its object.

    ``before``: where the fact stated before this one ends. A causal model finds the beginning of a
    quote by what stands there and before. A sentence's first word ("It …") says nothing of the fact
    to come, nor does a name, so a quote begins at the last telling word between the two facts;
    where there is none, at one after the object.
    """
    ends = [m.end() for m in _SENTENCE.finditer(text) if m.end() <= start]
    opening = ends[-1] if ends else 0
    named = set(subject.split())
    words = list(_WORD.finditer(text, opening, start))
    telling = [w.start() for w in words if w.start() >= before and _is_telling(w.group(), named)]
    if telling:
        return text[telling[-1] : end], False
    close = _SENTENCE.search(text, end)
    rest = list(_WORD.finditer(text, end, close.start() if close else len(text)))
    later = next((i for i, w in enumerate(rest) if _is_telling(w.group(), named)), None)
    if later is not None and len(words) <= NEAR and ")" not in text[end : rest[later].start()]:
        last = rest[min(later + AFTER, len(rest)) - 1].end()
        return text[rest[later].start() : last].rstrip(".,;!?)"), True
    near = words[-NEAR:]
    return text[near[0].start() if near else start : end], False


def _is_telling(word: str, named: Collection[str]) -> bool:
    return word not in named and _TELLING.match(word) is not None
