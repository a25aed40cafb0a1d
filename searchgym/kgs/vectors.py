"""Texts as TF-IDF vectors: how near each is to a query, alone and in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Groups(NamedTuple):
    """Groups of texts as the sums of their vectors, brought to length 1."""

    labels: Ints  # (N,) which group a text is in
    norms: Floats  # (G,) lengths of the sums


class TextVectors:
    """One vector of length 1 per text: (1 + ln tf) · ln((N + 1) / df), by term.

    ``terms`` turns a text into index terms. Columns are stored by term, so that a query touches
    only the texts that share one with it.
    """

    def __init__(self, texts: Iterable[str], terms: Callable[[str], list[str]]) -> None:
        self._terms = terms
        number: dict[str, int] = {}
        text_of: list[int] = []
        term_of: list[int] = []
        counts: list[int] = []
        n = 0
        for n, text in enumerate(texts, 1):
            term_counts = Counter(terms(text))
            text_of += [n - 1] * len(term_counts)
            term_of += [number.setdefault(t, len(number)) for t in term_counts]
            counts += term_counts.values()
        self.n = n
        self._number = number
        owner, term = np.array(text_of, np.int64), np.array(term_of, np.int64)
        df = np.bincount(term, minlength=len(number))
        self._idf = np.log((n + 1) / np.maximum(df, 1))
        weight = (1 + np.log(np.array(counts, np.float64))) * self._idf[term]
        norms = np.sqrt(np.bincount(owner, weights=weight**2, minlength=n))
        order = np.argsort(term, kind="stable")  # texts ascend within a term
        self._text, self._term = owner[order], term[order]
        self._weight = (weight / np.where(norms > 0, norms, 1)[owner])[order]
        self._starts = np.searchsorted(self._term, np.arange(len(number) + 1))

    def scores(self, query: str) -> Floats:
        """(N,) cosines with the query, 0 to 1; zeros for a query without known terms."""
        total = np.zeros(self.n)
        length = 0.0
        for term, count in sorted(Counter(self._terms(query)).items()):
            if (number := self._number.get(term)) is None:
                continue
            weight = float((1 + np.log(count)) * self._idf[number])
            length += weight**2
            lo, hi = self._starts[number], self._starts[number + 1]
            total[self._text[lo:hi]] += weight * self._weight[lo:hi]
        return total / np.sqrt(length) if length > 0 else total

    def group(self, labels: Ints) -> Groups:
        """Groups 0..max(labels) of all texts."""
        n = int(labels.max()) + 1
        group, _, sums = self._sums(labels)
        return Groups(labels, np.sqrt(np.bincount(group, weights=sums**2, minlength=n)))

    def group_scores(self, scores: Floats, groups: Groups) -> Floats:
        """(G,) cosines of the groups' sums with the query whose ``scores`` are given."""
        dots = np.bincount(groups.labels, weights=scores, minlength=len(groups.norms))
        return np.divide(dots, groups.norms, out=np.zeros_like(dots), where=groups.norms > 0)

    def affinity(self, fine: Groups, coarse: Groups, parent: Ints) -> Floats:
        """(G of fine,) cosine of each group with its parent group in ``coarse``."""
        group, term, sums = self._sums(fine.labels)
        over, over_term, over_sums = self._sums(coarse.labels)
        width = len(self._number)
        where = np.searchsorted(over * width + over_term, parent[group] * width + term)
        dots = np.bincount(group, weights=sums * over_sums[where], minlength=len(fine.norms))
        length = fine.norms * coarse.norms[parent]
        return np.divide(dots, length, out=np.zeros_like(dots), where=length > 0)

    def _sums(self, labels: Ints) -> tuple[Ints, Ints, Floats]:
        """(group, term, weight) of the non-zero entries of the groups' sums, sorted."""
        width = len(self._number)
        key = labels[self._text] * width + self._term
        unique, where = np.unique(key, return_inverse=True)
        sums: Floats = np.bincount(where, self._weight, len(unique)).astype(np.float64)
        return unique // max(width, 1), unique % max(width, 1), sums


def best(
    scores: Floats, k: int, among: NDArray[np.bool_] | None = None, order: Ints | None = None
) -> list[int]:
    """Positions of the ``k`` best positive scores (``among`` some), best first, ties by ``order``
    (default: by position)."""
    positions = np.flatnonzero(scores > 0 if among is None else (scores > 0) & among)
    ranked = np.lexsort((positions if order is None else order[positions], -scores[positions]))
    best_first: list[int] = positions[ranked[: max(k, 0)]].tolist()
    return best_first
