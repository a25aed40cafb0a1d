"""Questions about a knowledge graph, asked from its facts, so that an imported graph can be trained
on at once. Templates over the source's relation names: plain, but with one right answer each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TaskError, check_known
from ..kgs.corpus import PREPOSITIONS, KGCorpus
from ..kgs.graph import KnowledgeGraph, Triple
from ..seeding import derive, stream, unit
from ..types import Difficulty, GraphEdge, GraphNode, ReasoningGraph, Split, Task
from .audit import Prover, verify
from .build import build_tasks
from .families import AT_MOST

if TYPE_CHECKING:
    from .context import Context
    from .draft import Family, Propose

FAMILIES = ("simple", "chain")
"""One fact; two facts of which the first leads to the second."""
SHOWN = 3
"""A gold query finds its passage among this many hits of BM25, or the question is not asked."""
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


def build_graph_tasks(
    corpus: KGCorpus,
    wanted: Mapping[Family, int],
    proof: Any,
    *,
    split: Split = "train",
    families: Collection[str] | None = None,
) -> list[Task]:
    """Tasks of each family, as many as are wanted; those of :data:`FAMILIES` are asked by
    :func:`ask_kg`, others as of a world, with answers of the split's own. What the graph does not
    hold is said (``FewerTasks``).

    Args:
        corpus: The graph's passages.
        wanted: Family → number of tasks.
        proof: BM25 over the passages; what it does not find is not asked.
        split: Split of the tasks.
        families: Names of the families that are asked; None: all.
    """
    from ..kgs.world import graph_world, stated_facts

    named = {family.name: number for family, number in wanted.items()}
    kept: list[Task] = []
    for name in FAMILIES:
        if (number := named.get(name, 0)) and (families is None or name in families):
            kept += _found(ask_kg(corpus.graph, name, split=split), number, proof)

    def of_split(propose: Propose) -> Propose:
        def proposed(ctx: Context, rng: Any, turn: int, /) -> Any:
            made = propose(ctx, rng, turn)
            return made if made is not None and in_split(split, made.answers[0]) else None

        return proposed

    counts: dict[Any, Any] = {
        replace(family, propose=of_split(family.propose)): number
        for family, number in wanted.items() if number and family.name not in FAMILIES
    }  # fmt: skip
    if not counts:
        return kept
    world, stated = graph_world(corpus.graph), stated_facts(corpus)
    prover = Prover(world, stated)
    return kept + build_tasks(
        world, stated, counts={**counts, AT_MOST: True}, families=families,
        seed=derive(0, "split", split), split=split,
        phrasing="heldout" if split == "test" else "train", id_prefix=f"{corpus.name}-{split}",
        prove=lambda built: verify(built, world, stated, proof, prover=prover).kept,
    )  # fmt: skip


def _found(asked: Iterable[Task], wanted: int, proof: Any) -> list[Task]:
    """The first ``wanted`` tasks whose gold queries find their passages; looks at most at ten times
    as many."""
    kept: list[Task] = []
    tried = iter(islice(asked, 10 * wanted))
    while len(kept) < wanted and (some := list(islice(tried, 256))):
        rankings = iter(proof.search([q for task in some for q in task.queries], SHOWN))
        for task in some:
            seen = [{hit.passage.id for hit in next(rankings)} for _ in task.queries]
            if all(e in ids for e, ids in zip(task.evidence, seen, strict=True)):
                kept.append(task)
    return kept[:wanted]


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
