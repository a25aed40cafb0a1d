"""A knowledge graph as a world, so that every task family can ask about it.

All entities are of one type, "entity". Relations are called and worded by their names in words
("the entity whose director is …", "the director of …", or, where a name ends in a preposition, "the
entity that is located in …"). Facts are stated by the graph's own passages
(:mod:`searchgym.kgs.corpus`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..corpora.corpus import GeneratedCorpus
from ..worlds.schema import EntityType, Phrases, Property, Schema
from ..worlds.world import World
from .corpus import PER_RELATION, PREPOSITIONS, KGCorpus
from .graph import IntArray, KnowledgeGraph

TYPE = "entity"


@dataclass(frozen=True, eq=False)
class GraphWorld(World):
    """A world made of a graph: entities and facts have the graph's numbers."""

    names_of: Sequence[tuple[str, ...]]
    """Every other name of each entity."""

    def aliases(self, entity: int) -> tuple[str, ...]:
        return self.names_of[entity]


def graph_world(graph: KnowledgeGraph) -> GraphWorld:
    """The facts of a graph as a world's. ``ValueError`` for a relation with entities and values."""
    is_value = np.zeros(len(graph.relations), bool)
    is_value[graph.relation[graph.tail < 0]] = True
    if is_value[graph.relation[graph.tail >= 0]].any():
        raise ValueError(f"a relation of {graph.name!r} leads to entities and to values")
    schema = Schema(
        graph.name,
        (EntityType(TYPE, TYPE, "entities", 1.0, "", Phrases((), ())),),
        tuple(
            _property(words, tuple(graph.values) if is_value[r] else ())
            for r, words in enumerate(graph.relation_words)
        ),
    )
    n = graph.n_entities
    related = np.flatnonzero(graph.tail >= 0)
    order = related[np.lexsort((graph.head[related], graph.relation[related], graph.tail[related]))]
    return GraphWorld(
        schema, 0, graph.titles, graph.labels, np.zeros(n, np.int16),
        graph.head.astype(np.int32), graph.relation.astype(np.int16),
        np.where(graph.tail >= 0, graph.tail, ~graph.tail), graph.indptr, order,
        np.searchsorted(graph.tail[order], np.arange(n + 1)), np.zeros(n, np.int8),
        [names[0] if names else "" for names in graph.aliases], graph.aliases,
    )  # fmt: skip


def _property(words: str, values: tuple[str, ...]) -> Property:
    def both(*texts: str) -> Phrases:
        return Phrases(texts, texts)

    if words.rpartition(" ")[2] in PREPOSITIONS:
        question, noun = f"What is {{s}} {words}?", f"the {TYPE} that {{s}} is {words}"
        inverse = f"the {TYPE} that is {words} {{o}}"
    else:
        question, noun = f"What is the {words} of {{s}}?", f"the {words} of {{s}}"
        inverse = f"the {TYPE} whose {words} is {{o}}"
    return Property(
        words, TYPE, None if values else TYPE, "n-n", both(f"{{s}} ({words}: {{o}})."),
        both(question), both(noun), both(inverse), value="category" if values else None,
        categories=values,
    )  # fmt: skip


def stated_facts(corpus: KGCorpus) -> GeneratedCorpus:
    """The passages of a graph with the lines that state its facts: one on the head's page, one on
    the tail's, as far as those list them."""
    graph = corpus.graph
    rows = np.arange(graph.n_facts)
    related = np.flatnonzero(graph.tail >= 0)
    by_tail = related[
        np.lexsort((graph.head[related], graph.relation[related], graph.tail[related]))
    ]
    heads = _lines(graph.head, graph.relation, rows)
    tails = _lines(graph.tail[by_tail], graph.relation[by_tail], by_tail)
    many = np.bincount(graph.head, minlength=graph.n_entities) * 0
    own, about = many.copy(), many.copy()
    np.maximum.at(own, heads[1], heads[2] + 1)
    np.maximum.at(about, tails[1], tails[2] + 1)
    columns = [
        np.concatenate((heads[0], tails[0])),
        np.concatenate((heads[1], tails[1])),
        np.concatenate((heads[2], tails[2] + own[tails[1]])),
    ]
    total = own + about
    starts, ends = [], []
    bounds: dict[int, list[tuple[int, int]]] = {}
    for entity, line in zip(columns[1].tolist(), columns[2].tolist(), strict=True):
        if entity not in bounds:
            bounds[entity] = _bounds(corpus[int(corpus.page_of[entity])].text, int(total[entity]))
        start, end = bounds[entity][line]
        starts.append(start)
        ends.append(end)
    where = corpus.page_of[columns[1]]
    return GeneratedCorpus(
        corpus.name, list(corpus), fact=columns[0], passage=where,
        start=np.array(starts, np.int32), end=np.array(ends, np.int32), page_of=corpus.page_of,
    )  # fmt: skip


def _lines(
    entity: IntArray, relation: IntArray, fact: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """(fact, entity, line) of the facts that pages list, of columns sorted by entity, relation."""
    new = np.ones(len(fact), bool)
    new[1:] = (np.diff(entity) != 0) | (np.diff(relation) != 0)
    group = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    line = group - group[np.searchsorted(entity, entity)]
    listed: NDArray[np.bool_] = np.arange(len(fact)) - first[group] < PER_RELATION
    return fact[listed], entity[listed], line[listed]


def _bounds(text: str, lines: int) -> list[tuple[int, int]]:
    """Start and end of the last ``lines`` lines of a text."""
    places = []
    end = len(text)
    for _ in range(lines):
        start = text.rfind("\n", 0, end) + 1
        places.append((start, end))
        end = start - 1
    return places[::-1]
