"""Small knowledge graphs for tests: by hand, random, and a generated world's."""

from __future__ import annotations

from functools import lru_cache

import networkx as nx
from hypothesis import strategies as st

from searchgym.corpora import GeneratedCorpus, render
from searchgym.kgs.build import Entity, from_triples
from searchgym.kgs.graph import KnowledgeGraph
from searchgym.worlds import World
from tests.worlds.shipped import world_from_card

FILMS = (
    ("inception", "director", "nolan"),
    ("dunkirk", "director", "nolan"),
    ("dunkirk", "composer", "zimmer"),
    ("inception", "composer", "zimmer"),
    ("nolan", "place_of_birth", "london"),
    ("zimmer", "place_of_birth", "frankfurt"),
    ("inception", "date_of_release", "8 July 2010"),
    ("nolan2", "place_of_birth", "paris"),
    ("nolan", "employer", "nolan"),
)
NAMES = {
    "inception": Entity("Inception", "a film about dreams", ("Origin",)),
    "nolan": Entity("Christopher Nolan"),
    "nolan2": Entity("Christopher Nolan", "somebody else"),
    "lonely": Entity("Lonely Island"),
}


def films() -> KnowledgeGraph:
    return from_triples(FILMS, name="films", entities=NAMES, literals=("date_of_release",))


@lru_cache(maxsize=1)
def generated() -> tuple[World, GeneratedCorpus]:
    world = world_from_card("encyclopedia", entities=400, seed=5)
    return world, render(world)


TRIPLES = st.lists(
    st.tuples(
        st.integers(0, 14).map(lambda i: f"e{i}"),
        st.sampled_from(["likes", "knows", "owns"]),
        st.integers(0, 14).map(lambda i: f"e{i}"),
    ),
    min_size=1,
    max_size=40,
)


def undirected(graph: KnowledgeGraph) -> nx.MultiGraph:
    """What walks may use: one edge per fact between two different entities."""
    made: nx.MultiGraph = nx.MultiGraph()
    made.add_nodes_from(range(graph.n_entities))
    for fact in range(graph.n_facts):
        triple = graph.triple(fact)
        if triple.tail >= 0 and triple.tail != triple.head:
            made.add_edge(triple.head, triple.tail, relation=triple.relation)
    return made
