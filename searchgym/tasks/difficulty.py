"""Difficulty of a task's graph, after REDSearcher (arXiv 2602.14234).

Axis (a) is the treewidth of the constraint graph: solving it by elimination costs
O(n · d^(treewidth + 1)), with 1 for chains and trees, 2 for rings, 3 for a tetrahedron. Axis (b) is
evidence dispersion, the least number of passages that jointly state every used fact.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import combinations
from typing import TypeVar

EXACT_NODES = 12
"""Largest number of nodes for which the dynamic programme over subsets (2^n states) is used."""


def treewidth(edges: Iterable[tuple[str, str]]) -> int:
    """Treewidth of the undirected simple graph with these edges; loops and repeats are ignored.

    Exact up to ``EXACT_NODES`` nodes (Bodlaender et al., *On exact algorithms for treewidth*,
    2006), else networkx's min-fill-in upper bound. 0 for a graph without edges.
    """
    number: dict[str, int] = {}
    pairs: set[tuple[int, int]] = set()
    for a, b in edges:
        u, v = number.setdefault(a, len(number)), number.setdefault(b, len(number))
        if u != v:
            pairs.add((min(u, v), max(u, v)))
    if not pairs:
        return 0
    if len(pairs) < _cycle_bound(len(number), pairs):
        return 1  # a forest: the common case, answered without the programme
    if len(number) > EXACT_NODES:
        return _upper_bound(len(number), pairs)
    return _exact(len(number), pairs)


def _cycle_bound(n: int, pairs: set[tuple[int, int]]) -> int:
    """Number of edges from which the graph must hold a cycle: n − components + 1."""
    parent = list(range(n))

    def root(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for u, v in pairs:
        parent[root(u)] = root(v)
    return n - sum(parent[i] == i for i in range(n)) + 1


def _exact(n: int, pairs: set[tuple[int, int]]) -> int:
    """TW(S) = min over v in S of max(TW(S − v), |Q(S − v, v)|), where Q counts the vertices
    outside S − v and other than v that v reaches through S − v."""
    neighbours = [0] * n
    for u, v in pairs:
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    best = [0] + [n] * ((1 << n) - 1)
    for chosen in range(1, 1 << n):
        rest = chosen
        while rest:
            bit = rest & -rest
            rest ^= bit
            before = chosen ^ bit
            if best[before] >= best[chosen]:
                continue
            width = _reached(neighbours, before, bit).bit_count()
            best[chosen] = min(best[chosen], max(best[before], width))
    return best[-1]


def _reached(neighbours: list[int], through: int, start: int) -> int:
    """Vertices outside ``through`` (and not ``start``) adjacent to start's component in it."""
    seen = frontier = start
    while frontier:
        adjacent = 0
        while frontier:
            bit = frontier & -frontier
            frontier ^= bit
            adjacent |= neighbours[bit.bit_length() - 1]
        frontier = adjacent & ~seen & through
        seen |= adjacent
    return seen & ~through & ~start


def _upper_bound(n: int, pairs: set[tuple[int, int]]) -> int:
    import networkx as nx
    from networkx.algorithms.approximation import treewidth_min_fill_in

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(sorted(pairs))
    return int(treewidth_min_fill_in(graph)[0])


EXACT_DOCUMENTS = 15

D = TypeVar("D", bound=Hashable)


def minimal_cover(stated: Sequence[Collection[D]]) -> tuple[D, ...]:
    """Documents that jointly cover every fact; ``stated[i]`` lists those that state fact i.

    A least cover (exact up to ``EXACT_DOCUMENTS`` distinct documents, else greedy), in the order
    in which the documents first occur. ``ValueError`` if a fact is stated nowhere.
    """
    documents: dict[D, int] = {}
    for i, where in enumerate(stated):
        if not where:
            raise ValueError(f"fact {i} is stated in no document, so no cover exists")
        for document in where:
            documents[document] = documents.get(document, 0) | 1 << i
    everything = (1 << len(stated)) - 1
    if len(documents) > EXACT_DOCUMENTS:
        return _greedy(documents, everything)
    # what only one document states is read there: such documents are in every cover
    forced = {next(iter(where)) for where in stated if len(set(where)) == 1}
    free = [document for document in documents if document not in forced]
    for size in range(len(free) + 1):
        for chosen in combinations(free, size):
            covered = 0
            for document in (*forced, *chosen):
                covered |= documents[document]
            if covered == everything:
                return tuple(d for d in documents if d in forced or d in chosen)
    raise AssertionError("unreachable: all documents together cover every fact")


def _greedy(documents: dict[D, int], everything: int) -> tuple[D, ...]:
    chosen: list[D] = []
    left = everything
    while left:
        best = max(documents, key=lambda d: (documents[d] & left).bit_count())
        chosen.append(best)
        left &= ~documents[best]
    return tuple(d for d in documents if d in chosen)


def dispersion(stated: Sequence[Collection[D]]) -> int:
    """Size of ``minimal_cover``: 1 if one page states everything, 0 if nothing is used."""
    return len(minimal_cover(stated))
