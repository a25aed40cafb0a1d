"""BM25 retrieval without numba: what ``_kernel`` computes, bit for bit, in NumPy's passes.

It reads every posting of a query's words. In corpora of some thousand passages that costs little;
for millions of them, install numba (the extra ``fast``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 10
"""Hits per query up to which skipping pays: beyond, little can be skipped."""
NONE = np.zeros(0, np.float32)
"""No order of its own, or no floor."""
BLOCK = 64
"""Passages per bitmap word."""
FAULTS = ("", "indptr", "rows", "indices", "data", "largest", "marks")
"""Faults, of which :func:`fault` returns the position: the first array that is wrong."""


class Weighting(NamedTuple):
    """Numbers from which scores follow where ``data`` holds term frequencies."""

    numbers: NDArray[Any]
    """Number of each column's term (columns,), int32."""
    idf: NDArray[np.float32]
    """Inverse document frequency of each term (terms,)."""
    norms: NDArray[Any]
    """k1 · (1 − b + b · length / mean length) of each document (documents,), float64."""


STORED = Weighting(NONE, NONE, NONE)
"""Weighting of an index whose scores are stored."""


class Postings(NamedTuple):
    """Compressed sparse columns: column = term, row = passage position, value = score > 0."""

    data: NDArray[Any]
    """(postings,) scores, or frequencies that ``weighting`` makes scores of."""
    indices: NDArray[Any]
    """(postings,), ascending within a column."""
    indptr: NDArray[Any]
    """(terms + 1,)"""
    largest: NDArray[np.float32]
    """(terms,) maximum of each column, 0 where it is empty."""
    rows: NDArray[np.int32]
    """(terms,) place of a long column in ``marks``, else −1."""
    marks: NDArray[np.uint64]
    """(long, ⌈passages / 64⌉, 2) bitmap; postings before each word."""
    weighting: Weighting = STORED


class QueryTerms(NamedTuple):
    """Queries: their terms in a row."""

    terms: NDArray[np.int32]
    """Numbers of terms; negative ones are skipped."""
    weights: NDArray[np.float32]
    """How often each counts."""
    starts: NDArray[np.int64]
    """(queries + 1,) where each query's terms begin."""
    order: NDArray[np.float32] = NONE
    """Scores by which to order terms, where they are not the largest that each can give."""


class Room(NamedTuple):
    """Where a kernel works and writes."""

    scores: NDArray[np.float32]
    """(passages,) of zeros, left so."""
    seen: NDArray[np.int32]
    """(passages + 1,)"""
    docs: NDArray[np.int32]
    """(queries, k ≥ 1) of −1: the best documents of each, best first; unused places stay so."""
    best: NDArray[np.float32]
    """(queries, k) of zeros: their scores."""


def best_of_all(batch: QueryTerms, postings: Postings, room: Room) -> None:
    """Write each query's best documents, best first, ties by position; see ``_kernel.best_of_all``.

    Only of indexes in memory: their scores are stored, and there is no ``order`` of its own.
    """
    terms, weights, starts, _ = batch
    data, indices, indptr, largest, _, _, _ = postings
    scores, _, out_docs, out_scores = room
    k = out_docs.shape[1]
    for q in range(len(starts) - 1):
        own, weight = terms[starts[q] : starts[q + 1]], weights[starts[q] : starts[q + 1]]
        own, weight = own[own >= 0], weight[own >= 0]
        for i in np.lexsort((own, -weight * largest[own])):  # scores are summed in this order
            held = slice(indptr[own[i]], indptr[own[i] + 1])
            scores[indices[held]] += weight[i] * data[held]
        found = np.flatnonzero(scores)
        values = scores[found]
        scores[found] = 0
        if len(found) > k:  # those that tie with the last one may still be hits
            kept = values >= np.partition(values, len(values) - k)[len(values) - k]
            found, values = found[kept], values[kept]
        ranked = np.lexsort((found, -values))[:k]
        out_docs[q, : len(ranked)] = found[ranked]
        out_scores[q, : len(ranked)] = values[ranked]


def bitmap(postings: NDArray[Any], n_docs: int) -> NDArray[np.uint64]:
    """A column's bitmap (⌈passages / 64⌉, 2): its words, and the postings before each."""
    there = np.zeros((-(-n_docs // BLOCK), BLOCK), np.bool_)
    there.ravel()[postings] = True
    words = np.packbits(there, bitorder="little").view("<u8")
    counts = there.sum(axis=1).astype(np.uint64)
    return np.stack([words, np.cumsum(counts, dtype=np.uint64) - counts], axis=1)


def best_k(batch: QueryTerms, floor: NDArray[np.float32], postings: Postings, room: Room) -> None:
    """Do what :func:`best_of_all` does, with the arguments of ``_kernel.best_k``."""
    best_of_all(batch, postings, room)


def fault(postings: Postings, passages: int) -> int:
    """Return 0 for an index that :class:`Postings` describes, else a place in ``FAULTS``; see
    ``_kernel.fault``."""
    data, indices, indptr, largest, rows, marks, _ = postings
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        return 1
    if ((rows < -1) | (rows >= len(marks))).any():
        return 2
    filled = np.flatnonzero(np.diff(indptr))
    first = np.zeros(len(data), np.bool_)
    first[indptr[filled]] = True
    inside = (indices >= 0) & (indices < passages)
    if not (inside.all() and (first[1:] | (indices[1:] > indices[:-1])).all()):
        return 3
    if not ((data > 0) & np.isfinite(data)).all():
        return 4
    most = np.zeros(len(largest), np.float32)
    if len(filled):
        most[filled] = np.maximum.reduceat(data, indptr[filled])
    if not np.array_equal(most, largest):
        return 5
    right = all(
        np.array_equal(
            marks[rows[term]], bitmap(indices[indptr[term] : indptr[term + 1]], passages)
        )
        for term in np.flatnonzero(rows >= 0).tolist()
    )
    return 0 if right else 6
