"""A knowledge graph as a corpus: one passage per entity, made of its facts."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from ..corpora.corpus import Corpus
from ..types import Passage
from .graph import IntArray, KnowledgeGraph, Triple

PREPOSITIONS = frozenset("at by for from in of on to with".split())
PER_RELATION = 10
"""Objects listed per relation; hubs have thousands."""


class KGCorpus(Corpus):
    """Passages that were made from a graph. Entity e's passage is ``corpus[page_of[e]]``."""

    def __init__(self, graph: KnowledgeGraph, passages: Sequence[Passage]) -> None:
        super().__init__(graph.name, passages)
        self.graph = graph
        self.page_of: IntArray = np.array([self.position(key) for key in graph.ids], np.int64)


def kg_corpus(graph: KnowledgeGraph) -> KGCorpus:
    """One passage per entity: id and title are the entity's, the text says what is known of it (see
    :func:`entity_text`), the URL is ``corpus://name/id``."""
    site = f"corpus://{quote(graph.name)}/"
    passages = [
        Passage(key, graph.titles[e], entity_text(graph, e), site + quote(key, safe=""))
        for e, key in enumerate(graph.ids)
    ]
    return KGCorpus(graph, passages)


def entity_text(graph: KnowledgeGraph, entity: int, *, per_relation: int = PER_RELATION) -> str:
    """Write what is known of an entity, a line each: its description, other names, its facts by
    relation ("director: Christopher Nolan"), and facts about it ("director of: Inception; Dunkirk",
    "located in this: Bern"). At most ``per_relation`` objects each; what is left out is counted."""
    lines = [graph.descriptions[entity]] if graph.descriptions[entity] else []
    title, label = graph.titles[entity], graph.labels[entity]
    called = [n for n in dict.fromkeys((label, *graph.aliases[entity])) if n and n != title]
    if called:
        lines.append(f"also known as: {'; '.join(called)}")
    lines += fact_lines(graph, graph.facts(entity), per_relation=per_relation)
    lines += fact_lines(graph, graph.facts_about(entity), per_relation=per_relation, about=True)
    return "\n".join(lines)


def fact_lines(
    graph: KnowledgeGraph, facts: Sequence[Triple], *, per_relation: int, about: bool = False
) -> list[str]:
    """Facts of one head grouped by relation; ``about``: of one tail, and the heads are listed."""
    groups: dict[int, list[str]] = {}
    for fact in facts:
        if about:
            shown = graph.titles[fact.head]
        else:
            shown = fact.value if fact.tail < 0 else graph.titles[fact.tail]
        groups.setdefault(fact.relation, []).append(shown)
    lines = []
    for relation, objects in groups.items():
        words = graph.relation_words[relation]
        if about:
            words += " this" if words.rpartition(" ")[2] in PREPOSITIONS else " of"
        more = len(objects) - per_relation
        tail = f"; and {more} more" if more > 0 else ""
        lines.append(f"{words}: {'; '.join(objects[:per_relation])}{tail}")
    return lines
