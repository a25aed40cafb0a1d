"""Neighbours, paths and PageRank against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.errors import EngineError
from searchgym.kgs.build import from_triples, from_world
from searchgym.kgs.graph import neighbours, path_entities, shortest_path
from searchgym.kgs.rankings import ITERATIONS, personalised_pagerank

from .random_graphs import TRIPLES, films, generated, undirected


@given(TRIPLES, st.integers(0, 14), st.sampled_from([None, 0]))
def test_neighbours_are_at_their_distance(triples, which, relation):
    graph = from_triples(triples, name="g")
    entity = which % graph.n_entities
    joined = undirected(graph)
    if relation is not None:
        dropped = [e for e in joined.edges(keys=True) if joined.edges[e]["relation"] != relation]
        joined.remove_edges_from(dropped)
    distance = nx.single_source_shortest_path_length(joined, entity)
    one = neighbours(graph, entity, relation=relation)
    two = neighbours(graph, entity, relation=relation, hops=2)
    assert {n.entity for n in one} == {e for e, d in distance.items() if d == 1}
    assert {n.entity for n in two} == {e for e, d in distance.items() if d == 2}
    assert not {entity, *(n.entity for n in one)} & {n.entity for n in two}
    for n in one:
        assert n.ways == len(n.facts) == joined.number_of_edges(entity, n.entity)
        for fact in n.facts:
            assert {graph.head[fact], graph.tail[fact]} == {entity, n.entity}
    for n in two:
        assert n.ways == len(list(nx.common_neighbors(nx.Graph(joined), entity, n.entity)))
        assert path_entities(graph, entity, list(n.facts))[-1] == n.entity
    for found in (one, two):
        assert [(-n.ways, n.entity) for n in found] == sorted((-n.ways, n.entity) for n in found)


def test_other_numbers_of_hops_are_refused():
    for hops in (0, 3, -1):
        with pytest.raises(EngineError, match=f"got {hops}"):
            neighbours(films(), 0, hops=hops)


@given(TRIPLES, st.integers(0, 14), st.integers(0, 14), st.sampled_from([None, 0, 1, 2, 3]))
def test_paths_are_shortest(triples, a, b, max_len):
    graph = from_triples(triples, name="g")
    a, b = a % graph.n_entities, b % graph.n_entities
    joined = undirected(graph)
    path = shortest_path(graph, a, b, max_len=max_len)
    length = nx.shortest_path_length(joined, a, b) if nx.has_path(joined, a, b) else None
    if length is None or (max_len is not None and length > max_len):
        assert path is None
        return
    assert len(path) == length
    entities = path_entities(graph, a, path)
    assert entities[0] == a
    assert entities[-1] == b
    for fact, here, there in zip(path, entities, entities[1:], strict=False):
        assert {graph.head[fact], graph.tail[fact]} == {here, there}
    if a != b:
        assert entities == min(nx.all_shortest_paths(joined, a, b))


@given(TRIPLES, st.lists(st.integers(0, 14), min_size=1, max_size=3))
def test_pagerank_is_networkx_pagerank(triples, seeds):
    graph = from_triples(triples, name="g")
    restart: dict[int, float] = {}
    for seed in seeds:
        restart[seed % graph.n_entities] = restart.get(seed % graph.n_entities, 0.0) + 1.0
    exact = nx.pagerank(
        undirected(graph), alpha=0.85, personalization=restart, max_iter=5000, tol=1e-14
    )
    expected = np.array([exact[e] for e in range(graph.n_entities)])
    long = personalised_pagerank(graph, restart, iterations=5000, tolerance=1e-14)
    assert long.sum() == pytest.approx(1)
    np.testing.assert_allclose(long, expected, atol=1e-9)
    usual = personalised_pagerank(graph, restart)
    assert usual.sum() == pytest.approx(1)
    # What 50 steps leave open: the walk's difference shrinks by 0.85 at each.
    assert np.abs(usual - expected).sum() <= 2 * 0.85**ITERATIONS + 1e-7


def test_pagerank_needs_somewhere_to_start():
    for restart in ({}, {0: 0.0}):
        with pytest.raises(EngineError, match="needs an entity"):
            personalised_pagerank(films(), restart)
    with pytest.raises(EngineError, match="negative"):
        personalised_pagerank(films(), {0: -1.0, 1: 2.0})


def test_pagerank_of_a_world_keeps_near_its_start():
    graph = from_world(generated()[0])
    start = int(graph.degree.argmax())
    rank = personalised_pagerank(graph, {start: 1.0})
    assert rank.argmax() == start
    assert rank.sum() == pytest.approx(1)
