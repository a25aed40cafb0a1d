"""Compiled BM25 retrieval over bm25s's score matrix. Importing this module imports numba.

bm25s's own kernel leaves the order of tied documents open, at the cut-off too, and reads every
document's score once more to find the best. Here postings keep a running maximum per block of 64
documents, so that only blocks which can hold a hit are read, in ascending order of position: a
later document with an equal score never displaces an earlier one, which makes ties exact.

``cache=True`` keeps the machine code on disk: compilation is waited for once per installation.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK_BITS = 6


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def best_k(
    terms: NDArray[np.int32],
    weights: NDArray[np.float32],
    starts: NDArray[np.int64],
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    scores: NDArray[np.float32],
    block_max: NDArray[np.float32],
    out_docs: NDArray[np.int32],
    out_scores: NDArray[np.float32],
) -> None:
    """Write each query's best documents, best first, ties by position; unused places stay −1.

    ``terms[starts[q]:starts[q + 1]]``: term numbers of query q, negative ones are skipped;
    ``weights``: how often each counts. ``data, indices, indptr``: compressed sparse columns
    (column = term, row = document), values ≥ 0. ``scores`` (documents,) and ``block_max`` (blocks
    of 64,) must be all zero and are left so. ``out_docs`` (Q, k) filled with −1, ``out_scores``
    (Q, k) with 0.
    """
    n_docs = scores.shape[0]
    n_blocks = block_max.shape[0]
    k = out_docs.shape[1]
    for q in range(starts.shape[0] - 1):
        for t in range(starts[q], starts[q + 1]):
            term = terms[t]
            if term < 0:
                continue
            weight = weights[t]
            for i in range(indptr[term], indptr[term + 1]):
                doc = indices[i]
                score = scores[doc] + weight * data[i]
                scores[doc] = score
                block = doc >> BLOCK_BITS
                if score > block_max[block]:
                    block_max[block] = score
        docs = out_docs[q]
        best = out_scores[q]
        found = 0
        least = np.float32(0.0)
        for block in range(n_blocks):
            top = block_max[block]
            if top <= 0.0:
                continue
            block_max[block] = 0.0
            first = block << BLOCK_BITS
            last = min(first + (1 << BLOCK_BITS), n_docs)
            if top > least:
                for doc in range(first, last):
                    score = scores[doc]
                    if score > least:
                        place = found if found < k else k - 1
                        while place > 0 and best[place - 1] < score:
                            best[place] = best[place - 1]
                            docs[place] = docs[place - 1]
                            place -= 1
                        best[place] = score
                        docs[place] = doc
                        if found < k:
                            found += 1
                        if found == k:
                            least = best[k - 1]
            scores[first:last] = 0.0
