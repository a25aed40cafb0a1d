"""Compiled BM25 retrieval that scores every matching passage; for many hits per query.

Scores are summed as in ``_kernel``, so both give the same bits. The k best are found without a heap
or a sort of everything: a histogram of the scores tells a level that at least k documents reach,
and these are sorted by one 64-bit number each: the bits of the score, which for positive numbers
are ordered as the numbers are, above the complement of the position. Ties are in order by that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ._kernel import Weighting, by_largest, idf_of, score_of

_LEVELS = 4096
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


@njit(nogil=True, cache=True)
def best_of_all(
    terms: NDArray[np.int32],
    weights: NDArray[np.float32],
    starts: NDArray[np.int64],
    order: NDArray[np.float32],
    weighting: Weighting,
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    largest: NDArray[np.float32],
    scores: NDArray[np.float32],
    seen: NDArray[np.int32],
    out_docs: NDArray[np.int32],
    out_scores: NDArray[np.float32],
) -> None:
    """Find what ``_kernel.best_k`` finds, for any k."""
    k = out_docs.shape[1]
    longest = 0
    for q in range(starts.shape[0] - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    own = np.empty(longest, np.int32)
    weight = np.empty(longest, np.float32)
    bound = np.empty(longest, np.float32)
    values = np.empty(seen.shape[0], np.float32)
    bits = values.view(np.uint32)
    keys = np.empty(seen.shape[0], np.uint64)
    counts = np.empty(_LEVELS, np.int32)
    high = np.empty(k, np.uint32)
    for q in range(starts.shape[0] - 1):
        here = slice(starts[q], starts[q + 1])
        n = by_largest(terms[here], weights[here], order[here], largest, own, weight, bound)
        n_seen = 0
        for i in range(n):
            w = weight[i]
            own_idf = idf_of(data, weighting, own[i])
            for p in range(indptr[own[i]], indptr[own[i] + 1]):
                doc = np.uint32(indices[p])
                score = scores[doc]
                seen[n_seen] = doc  # kept only if new; no branch, it could not be predicted
                n_seen += score == 0.0
                scores[doc] = score + w * score_of(data, p, own_idf, weighting, doc)
        most = np.float32(0.0)
        for j in range(n_seen):
            doc = np.uint32(seen[j])
            values[j] = scores[doc]
            scores[doc] = np.float32(0.0)
            most = max(most, values[j])

        level = 0
        scale = np.float32(0.0)
        if n_seen > k:
            scale = np.float32(_LEVELS - 1) / most
            counts[:] = 0
            for j in range(n_seen):
                counts[np.uint32(values[j] * scale)] += 1
            level = _LEVELS - 1
            reached = int(counts[level])
            while reached < k:
                level -= 1
                reached += int(counts[level])
        left = 0
        for j in range(n_seen):
            place = _LOW - np.uint64(np.uint32(seen[j]))
            keys[left] = (np.uint64(bits[j]) << _HIGH) | place
            left += int(np.uint32(values[j] * scale) >= level)
        top = keys[:left]
        if left > k:
            top = np.partition(top, left - k)[left - k :]
        top.sort()
        m = top.shape[0]
        for i in range(m):
            key = top[m - 1 - i]
            out_docs[q, i] = np.int32(_LOW - (key & _LOW))
            high[i] = np.uint32(key >> _HIGH)
        out_scores[q, :m] = high[:m].view(np.float32)
