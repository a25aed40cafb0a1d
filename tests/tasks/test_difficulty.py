from __future__ import annotations

from itertools import combinations, product

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.tasks.draft import minimal_cover, treewidth


def _named(pairs):
    return [(str(a), str(b)) for a, b in pairs]


def _grid(rows: int, columns: int):
    graph = nx.grid_2d_graph(rows, columns)
    return _named(graph.edges)


@pytest.mark.parametrize(
    ("edges", "width"),
    [
        ([], 0),
        ([("a", "a")], 0),
        (_named((i, i + 1) for i in range(6)), 1),
        (_named((0, i) for i in range(1, 9)), 1),
        (_named([(0, 1), (1, 2), (2, 3), (3, 0)]), 2),
        (_named([(0, 1), (0, 1), (1, 0)]), 1),
        (_named([(0, 1), (2, 3), (3, 4), (4, 2)]), 2),
        (_named(combinations(range(4), 2)), 3),
        (_named(combinations(range(7), 2)), 6),
        (_grid(3, 3), 3),
        (_grid(2, 6), 2),
    ],
)
def test_known_treewidths(edges, width):
    assert treewidth(edges) == width


def test_large_graphs_get_an_upper_bound():
    assert 4 <= treewidth(_grid(4, 4)) <= 6
    assert treewidth(_named((i, i + 1) for i in range(40))) == 1


@given(st.integers(2, 6), st.data())
def test_treewidth_is_the_best_elimination_order(n, data):
    pairs = [p for p in combinations(range(n), 2) if data.draw(st.booleans())]
    from itertools import permutations

    best = n
    for order in permutations(range(n)):
        near = {v: {b if a == v else a for a, b in pairs if v in (a, b)} for v in range(n)}
        width = 0
        for v in order:
            width = max(width, len(near[v]))
            for a, b in product(near[v], near[v]):
                if a != b:
                    near[a].add(b)
            for a in near[v]:
                near[a].discard(v)
            near[v] = set()
        best = min(best, width)
    width = treewidth(_named(pairs))
    assert width >= best
    assert (width == best) or best > 2


def test_one_page_that_states_everything():
    assert minimal_cover([["a", "b"], ["b"], ["c", "b"]]) == ("b",)


def test_every_fact_on_its_own_page():
    assert len(minimal_cover([["a"], ["b"], ["c"], ["d"]])) == 4
    assert minimal_cover([]) == ()


def test_greedy_above_the_exact_limit_still_covers():
    stated = [[f"own{i}", "hub"] if i % 2 else [f"own{i}"] for i in range(20)]
    cover = minimal_cover(stated)
    assert all(set(where) & set(cover) for where in stated)
    assert len(cover) == 11


def test_a_fact_stated_nowhere_is_an_error():
    with pytest.raises(ValueError, match="fact 1"):
        minimal_cover([["a"], []])


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3), max_size=7))
def test_removing_any_passage_of_a_minimal_cover_breaks_it(stated):
    cover = minimal_cover(stated)
    assert all(set(where) & set(cover) for where in stated)
    for left_out in cover:
        rest = set(cover) - {left_out}
        assert not all(set(where) & rest for where in stated)
    documents = sorted({d for where in stated for d in where})
    for smaller in combinations(documents, max(0, len(cover) - 1)):
        if stated:
            assert not all(set(where) & set(smaller) for where in stated)
