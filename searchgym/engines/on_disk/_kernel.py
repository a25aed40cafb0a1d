"""Compiled BM25 retrieval over shards. Importing this module imports numba.

One shard after the other is searched as a whole index is (``engines._kernel``). Its scores fit into
the processor's cache, and what the shards before it found must be reached, so that later ones read
less. Scores are summed in one order in all of them, that of the terms' largest scores anywhere: the
result equals that of one index of all passages, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._kernel import best_k, best_of_all
from .._plain import MOST, Postings, QueryTerms, Room, Weighting


@njit(nogil=True, cache=True)
def _column(terms: NDArray[np.int32], number: int) -> int:
    """The place of a term among a shard's, which ascend; −1 where it has none."""
    low, high = 0, terms.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < terms.shape[0] and terms[low] == number else -1


@njit(nogil=True, cache=True)
def _merge(
    docs: NDArray[np.int32],
    scores: NDArray[np.float32],
    new_docs: NDArray[np.int32],
    new_scores: NDArray[np.float32],
    base: int,
    before: bool,
) -> None:
    """Keep the best of two rankings (k,) in the first; ties are the new one's if its documents,
    counted from ``base``, stand ``before`` the others."""
    if new_docs[0] < 0:
        return
    k = docs.shape[0]
    old_docs, old_scores = docs.copy(), scores.copy()
    i = j = 0
    for place in range(k):
        old = i < k and old_docs[i] >= 0
        new = j < k and new_docs[j] >= 0
        wins = new and (
            not old or new_scores[j] > old_scores[i] or (before and new_scores[j] == old_scores[i])
        )
        if old and not wins:
            docs[place], scores[place] = old_docs[i], old_scores[i]
            i += 1
        elif new:
            docs[place], scores[place] = new_docs[j] + base, new_scores[j]
            j += 1
        else:
            break


@njit(nogil=True, cache=True)
def best_of_shards(
    batch: QueryTerms, most: NDArray[np.float32], shards: NDArray[np.int64],
    held: NDArray[np.int64], postings: Postings, shard: int, backwards: bool, room: Room,
) -> None:  # fmt: skip
    """Write each query's best documents, best first, ties by position.

    ``most``, ``shards``, ``held`` and ``postings``: of ``files.ARRAYS``, the last with ``terms``,
    ``idf`` and ``norms`` as its weighting; ``shard``: passages of a shard, for which there is
    ``room``; ``backwards``: begin with the last shard, to the same result.
    """
    numbers, weights, starts, _ = batch
    data, indices, indptr, largest, rows, marks, weighting = postings
    scores, seen, out_docs, out_scores = room
    queries, k = out_docs.shape
    order = np.zeros(numbers.shape[0], np.float32)
    for t in range(numbers.shape[0]):
        if numbers[t] >= 0:
            order[t] = weights[t] * most[numbers[t]]
    columns = np.empty(numbers.shape[0], np.int32)
    floor = np.zeros(queries, np.float32)
    docs = np.empty((queries, k), np.int32)
    best = np.empty((queries, k), np.float32)
    count = shards.shape[0] - 1
    for turn in range(count):
        s = count - 1 - turn if backwards else turn
        here = slice(shards[s], shards[s + 1])
        part = slice(held[s], held[s + 1])
        own = Weighting(
            weighting.numbers[here], weighting.idf, weighting.norms[s * shard : (s + 1) * shard]
        )
        edges = indptr[shards[s] + s : shards[s + 1] + s + 1]
        for t in range(numbers.shape[0]):
            columns[t] = _column(own.numbers, numbers[t])
        docs[:] = -1
        best[:] = 0
        asked = QueryTerms(columns, weights, starts, order)
        inside = Postings(data[part], indices[part], edges, largest[here], rows[here], marks, own)
        place = Room(scores, seen, docs, best)
        if k <= MOST:
            best_k(asked, floor, inside, place)
        else:
            best_of_all(asked, inside, place)
        for q in range(queries):
            _merge(out_docs[q], out_scores[q], docs[q], best[q], s * shard, backwards)
            if out_docs[q, k - 1] >= 0:
                floor[q] = out_scores[q, k - 1]
