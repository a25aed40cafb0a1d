"""Questions about a knowledge graph, asked from its facts, so that an imported graph can be trained
on at once. Templates over the source's relation names: plain, but with one right answer each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..errors import TaskError, check_known
from ..seeding import derive, stream, unit
from ..types import Difficulty, GraphEdge, GraphNode, ReasoningGraph, Split, Task
from .corpus import PREPOSITIONS
from .graph import KnowledgeGraph, Triple

FAMILIES = ("simple", "chain")
"""One fact; two facts of which the first leads to the second."""
_SHARES: Mapping[Split, tuple[float, float]] = {
    "train": (0.0, 0.8),
    "dev": (0.8, 0.9),
    "test": (0.9, 1.0),
}


def ask_kg(
    graph: KnowledgeGraph, family: str, *, split: Split = "train", seed: int = 0
) -> Iterator[Task]:
    """Tasks in an order that ``seed`` shuffles, each asked once; splits share none.

    Only what has a single answer is asked: facts whose head has no other fact of the relation.
    Evidence are the heads' passages, hop by hop. ``TaskError`` for an unknown family.
    """
    check_known("family of questions on a knowledge graph", FAMILIES, family, error=TaskError)
    single = _single(graph)
    rows = (
        np.flatnonzero(single & (graph.tail >= 0)) if family == "chain" else np.flatnonzero(single)
    )
    for row in stream(seed, "kg-questions", family).permutation(rows).tolist():
        first = graph.triple(int(row))
        chains: list[tuple[Triple, ...]]
        if family == "simple":
            chains = [(first,)]
        elif _ends_in_preposition(graph, first):
            continue
        else:  # no fact that leads back, and one question per beginning
            seconds = [t for t in graph.facts(first.tail) if single[t.id] and t.tail != first.head]
            leads_on = bool(seconds) and first.tail != first.head
            chains = [(first, seconds[0])] if leads_on else []
        for chain in chains:
            key = [graph.ids[first.head], *(graph.relations[t.relation] for t in chain)]
            if in_split(split, *key):
                yield _task(graph, family, chain, split)


def in_split(split: Split, *key: str) -> bool:
    """Return whether what is told apart by ``key`` belongs to a split."""
    low, high = _SHARES[split]
    return low <= unit(derive(0, "kg-split", *key)) < high


def _single(graph: KnowledgeGraph) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(F,) mask of the facts that are their head's only one of a relation."""
    key = graph.head * len(graph.relations) + graph.relation
    _, where, counts = np.unique(key, return_inverse=True, return_counts=True)
    single: np.ndarray[tuple[int], np.dtype[np.bool_]] = counts[where] == 1
    return single


def _task(graph: KnowledgeGraph, family: str, chain: tuple[Triple, ...], split: Split) -> Task:
    last = chain[-1]
    nodes = [GraphNode("n0", "entity", graph.titles[chain[0].head], given=True)]
    edges = []
    for i, fact in enumerate(chain):
        value = fact.value if fact.tail < 0 else graph.titles[fact.tail]
        kind = "value" if fact.tail < 0 else "entity"
        nodes.append(GraphNode(f"n{i + 1}", kind, value))
        relation, page = graph.relations[fact.relation], graph.ids[fact.head]
        edges.append(GraphEdge(f"n{i}", relation, f"n{i + 1}", int(graph.source[fact.id]), page))
    if last.tail < 0:
        answers: tuple[str, ...] = (last.value,)
    else:
        names = (graph.titles[last.tail], graph.labels[last.tail], *graph.aliases[last.tail])
        answers = tuple(dict.fromkeys(n for n in names if n.strip()))
    evidence = tuple(graph.ids[t.head] for t in chain)
    return Task(
        id=f"{graph.name}-{family}-{'-'.join(str(int(graph.source[t.id])) for t in chain)}",
        question=_question(graph, chain),
        answers=answers,
        evidence=evidence,
        queries=tuple(
            f"{graph.titles[t.head]} {graph.relation_words[t.relation]}" for t in chain
        ),
        family=family,
        hops=len(chain),
        split=split,
        graph=ReasoningGraph(tuple(nodes), tuple(edges), f"n{len(chain)}"),
        difficulty=Difficulty(len(chain), 1, 1, len(set(evidence))),
    )  # fmt: skip


def _question(graph: KnowledgeGraph, chain: tuple[Triple, ...]) -> str:
    *inner, last = chain
    thing = graph.titles[chain[0].head]
    for fact in inner:
        thing = f"the {graph.relation_words[fact.relation]} of {thing}"
    words = graph.relation_words[last.relation]
    if _ends_in_preposition(graph, last):
        return f"What is {thing} {words}?"
    return f"What is the {words} of {thing}?"


def _ends_in_preposition(graph: KnowledgeGraph, fact: Triple) -> bool:
    return graph.relation_words[fact.relation].rpartition(" ")[2] in PREPOSITIONS
