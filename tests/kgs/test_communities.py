"""Communities and the beam search through them."""

from __future__ import annotations

import math
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from searchgym.engines import graph_index
from searchgym.errors import EngineError
from searchgym.kgs.build import from_triples, from_world
from searchgym.kgs.communities import Communities, CommunitySearch, find_communities
from searchgym.kgs.rankings import TextVectors

from .random_graphs import generated, undirected


@pytest.fixture(scope="module")
def index():
    world, corpus = generated()
    return graph_index(corpus, world)


def test_levels_are_nested_partitions(index):
    found = index.communities
    assert 2 <= len(found.labels) <= 3
    assert list(found.sizes) == sorted(found.sizes)
    for level, labels in enumerate(found.labels):
        assert set(labels.tolist()) == set(range(found.sizes[level]))
        if level:
            parent = found.parents(level)
            assert np.array_equal(parent[labels], found.labels[level - 1])
    assert found.members(0, 0)[0] == 0
    network = nx.Graph()
    network.add_nodes_from(range(index.graph.n_entities))
    counts = Counter(tuple(sorted(e[:2])) for e in undirected(index.graph).edges)
    network.add_weighted_edges_from((a, b, float(n)) for (a, b), n in sorted(counts.items()))
    coarsest = [set(found.members(0, c).tolist()) for c in range(found.sizes[0])]
    expected = nx.community.louvain_communities(network, seed=0)
    assert sorted(map(sorted, coarsest)) == sorted(map(sorted, expected))
    assert nx.community.modularity(network, coarsest) > 0.2


def test_equal_seeds_equal_communities(index):
    again = find_communities(index.graph, seed=0)
    assert all(
        np.array_equal(a, b) for a, b in zip(again.labels, index.communities.labels, strict=True)
    )


def test_an_unlimited_beam_is_the_exhaustive_search(index):
    search = index.community_search
    n = index.graph.n_entities
    queries = [*index.graph.titles[::23], "a film directed by somebody", "director of a band"]
    narrower = 0
    for query in queries:
        exhaustive = index.similar(query, n)
        assert exhaustive
        assert search.search(query, n, math.inf) == exhaustive
        assert search.search(query, 5, math.inf) == exhaustive[:5]
        found = search.search(query, n, 1)
        assert set(found) <= set(exhaustive)
        narrower += len(found) < len(exhaustive)
    assert narrower > len(queries) / 2
    assert search.search("", 5) == search.search("zzzz", 5, math.inf) == []


def test_the_beam_keeps_children_of_survivors_only(index):
    search, found = index.community_search, index.communities
    for query in index.graph.titles[::37]:
        for beam in (1, 2, 3):
            kept = search.descend(search.vectors.scores(query), beam)
            assert all(len(level) <= beam for level in kept)
            for level in range(1, len(kept)):
                parents = found.parents(level)[kept[level]]
                assert set(parents.tolist()) <= set(kept[level - 1])
    with pytest.raises(EngineError, match="at least 1, got 0"):
        search.search("x", 3, 0)


def test_scores_are_cosines_of_sums(index):
    """Groups and (parent, child) pairs against dense arithmetic."""
    texts = ["red fox fox", "red hen", "blue hen sea", "sea", ""]
    vectors = TextVectors(texts, str.split)
    terms = ["red", "fox", "hen", "blue", "sea"]
    rows = np.array([[vectors.scores(t)[i] for t in terms] for i in range(len(texts))])
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0])
    query = vectors.scores("red sea")
    idf = np.log(6 / np.array([2, 1, 2, 1, 2]))
    q = np.array([1, 0, 0, 0, 1]) * idf
    np.testing.assert_allclose(query, rows @ q / np.linalg.norm(q))
    fine, coarse = np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0, 0, 1])
    groups, over = vectors.group(fine), vectors.group(coarse)
    sums = np.array([rows[fine == g].sum(0) for g in range(3)])
    norms = np.linalg.norm(sums, axis=1)
    expected = np.array(
        [s @ q / np.linalg.norm(q) / n if n else 0 for s, n in zip(sums, norms, strict=True)]
    )
    np.testing.assert_allclose(vectors.group_scores(query, groups), expected)
    parent_sum = rows[:4].sum(0)
    parents = np.array([0, 0, 1])
    near = [
        s @ parent_sum / n / np.linalg.norm(parent_sum)
        for s, n in zip(sums[:2], norms, strict=False)
    ]
    np.testing.assert_allclose(vectors.affinity(groups, over, parents), [*near, 0])
    labels = (coarse, fine)
    search = CommunitySearch(Communities(labels), vectors)
    unit = [s / n if n else s for s, n in zip(sums, norms, strict=True)]
    up = parent_sum / np.linalg.norm(parent_sum)
    joint = [float((u + up) @ q / np.linalg.norm(q) / np.linalg.norm(u + up)) for u in unit[:2]]
    best_child = int(np.argmax(joint))
    assert search.descend(search.vectors.scores("red sea"), 1) == [[0], [best_child]]


def test_a_graph_without_edges_has_lonely_communities():
    graph = from_triples(
        [("a", "born", "1931"), ("b", "born", "1931")], name="g", literals=("born",)
    )
    assert find_communities(graph).sizes == (2,)


def test_weights_count():
    """Two pairs with five facts each, joined by a single one, are two communities."""
    triples = [(a, f"r{i}", b) for a, b in (("a", "b"), ("c", "d")) for i in range(5)]
    graph = from_triples([*triples, ("b", "r0", "c")], name="g")
    labels = find_communities(graph).labels[0]
    number = graph.ids.index
    assert labels[number("a")] == labels[number("b")]
    assert labels[number("c")] == labels[number("d")]
    assert labels[number("a")] != labels[number("c")]
    assert from_world(generated()[0]).n_edges
