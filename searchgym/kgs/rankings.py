"""Rankings of a knowledge graph's entities: personalised PageRank, and TF-IDF vectors of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError, MissingExtraError
from .graph import IntArray, KnowledgeGraph

try:
    from scipy.sparse import csc_array, csr_array
except ModuleNotFoundError as error:
    raise MissingExtraError("search in graphs (scipy)", "fast") from error

Floats = NDArray[np.float64]
ALPHA, ITERATIONS, TOLERANCE = 0.85, 50, 1e-8


def personalised_pagerank(
    graph: KnowledgeGraph,
    restart: Mapping[int, float],
    *,
    alpha: float = ALPHA,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Floats:
    """(N,) share of time a surfer spends at each entity; sums to 1.

    With probability ``alpha`` it follows a fact, in either direction, all facts equally likely;
    else (and where there are no facts) it starts anew at an entity of ``restart``, by weight. Stops
    when no more than ``tolerance`` of the mass moves per entity, as ``networkx.pagerank`` does, or
    after ``iterations``. Raises ``EngineError`` for an empty or negative ``restart``.

    ``networkx.pagerank`` has the same values, but makes a matrix for each query: 30 times as slow.
    """
    n = graph.n_entities
    start = np.zeros(n)
    for entity, weight in restart.items():
        if not weight >= 0:
            raise EngineError(f"restart weights must not be negative, got {weight}")
        start[entity] += weight
    if not start.sum() > 0:
        raise EngineError("personalised PageRank needs an entity to start from")
    start /= start.sum()
    indptr, other, _ = graph.adjacency
    edges = csr_array((np.ones(len(other)), other, indptr), shape=(n, n))  # symmetric
    share = np.divide(1.0, graph.degree, out=np.zeros(n), where=graph.degree > 0)
    dangling = graph.degree == 0
    rank = start
    for _ in range(iterations):
        flow = edges @ (rank * share)
        following = alpha * (flow + rank[dangling].sum() * start) + (1 - alpha) * start
        moved = np.abs(following - rank).sum()
        rank = following
        if moved < n * tolerance:
            break
    return rank / rank.sum()


class Groups(NamedTuple):
    """Groups of texts as the sums of their vectors."""

    labels: IntArray  # (N,) group of each text
    sums: Any  # (G, terms) sparse
    norms: Floats  # (G,) lengths of the sums


class TextVectors:
    """One vector of length 1 per text: (1 + ln tf) · ln((N + 1) / df), by term.

    ``terms`` turns a text into index terms.
    """

    def __init__(self, texts: Iterable[str], terms: Callable[[str], list[str]]) -> None:
        self._terms = terms
        counts = [Counter(terms(text)) for text in texts]
        known = dict.fromkeys(term for text in counts for term in text)
        self._number = {term: i for i, term in enumerate(known)}
        term = np.array([self._number[t] for c in counts for t in c], np.int64)
        times = np.array([times for c in counts for times in c.values()], np.float64)
        owner = np.repeat(np.arange(len(counts)), list(map(len, counts)))
        df = np.bincount(term, minlength=len(self._number))
        self._idf = np.log((len(counts) + 1) / np.maximum(df, 1))
        weight = (1 + np.log(times)) * self._idf[term]
        norms = np.sqrt(np.bincount(owner, weights=weight**2, minlength=len(counts)))
        weight /= np.where(norms > 0, norms, 1)[owner]
        # by term, so that a query touches only the texts that share one with it
        self._by_term = csc_array((weight, (owner, term)), shape=(len(counts), len(self._number)))

    def scores(self, query: str) -> Floats:
        """(N,) cosines with the query, 0 to 1; zeros for a query without known terms."""
        known = {
            self._number[term]: 1 + np.log(count)
            for term, count in sorted(Counter(self._terms(query)).items())
            if term in self._number
        }
        if not known:
            return np.zeros(self._by_term.shape[0])
        numbers = np.array(list(known))
        weights = np.array(list(known.values())) * self._idf[numbers]
        length = np.sqrt((weights**2).sum())
        total: Floats = self._by_term[:, numbers] @ weights
        return total / length if length > 0 else total

    def group(self, labels: IntArray) -> Groups:
        """Groups 0..max(labels) of all texts."""
        shape = (int(labels.max()) + 1, len(labels))
        member = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=shape)
        sums = (member @ self._by_term).tocsr()
        return Groups(labels, sums, np.sqrt(sums.power(2).sum(axis=1)))

    def group_scores(self, scores: Floats, groups: Groups) -> Floats:
        """(G,) cosines of the groups' sums with the query whose ``scores`` are given."""
        dots = np.bincount(groups.labels, weights=scores, minlength=len(groups.norms))
        return np.divide(dots, groups.norms, out=np.zeros_like(dots), where=groups.norms > 0)

    def affinity(self, fine: Groups, coarse: Groups, parent: IntArray) -> Floats:
        """(G of fine,) cosine of each group with its parent group in ``coarse``."""
        dots: Floats = fine.sums.multiply(coarse.sums[parent]).sum(axis=1)
        length = fine.norms * coarse.norms[parent]
        return np.divide(dots, length, out=np.zeros_like(dots), where=length > 0)


def best(
    scores: Floats, k: int, among: NDArray[np.bool_] | None = None, order: IntArray | None = None
) -> list[int]:
    """Positions of the ``k`` best positive scores (``among`` some), best first, ties by ``order``
    (default: by position)."""
    positions = np.flatnonzero(scores > 0 if among is None else (scores > 0) & among)
    ranked = np.lexsort((positions if order is None else order[positions], -scores[positions]))
    best_first: list[int] = positions[ranked[: max(k, 0)]].tolist()
    return best_first
