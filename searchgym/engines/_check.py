"""Checks of what compiled retrieval relies on, for an index that may have been altered.

The kernels do not check where they read and write: an index whose numbers point elsewhere would
make them read and write other memory. One pass over all numbers, as fast as memory is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ._kernel import Weighting, idf_of, score_of

FAULTS = ("", "indptr", "rows", "indices", "data", "largest", "marks")
"""Faults, of which :func:`fault` returns the position: the first array that is wrong."""


@njit(nogil=True, cache=True)
def fault(
    weighting: Weighting,
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    largest: NDArray[np.float32],
    rows: NDArray[np.int32],
    marks: NDArray[np.uint64],
    passages: int,
) -> int:
    """Return 0 for an index that ``bm25_index.BM25Index`` describes, else a place in ``FAULTS``.

    Lengths and types are taken to be right: indptr (terms + 1,), largest and rows (terms,), data
    and indices (postings,), marks (long, ⌈passages / 64⌉, 2), and the numbers of ``weighting``
    (``_kernel.Weighting``).
    """
    if indptr[0] != 0 or indptr[-1] != data.shape[0]:
        return 1
    for t in range(rows.shape[0]):
        if indptr[t + 1] < indptr[t] or indptr[t + 1] > data.shape[0]:
            return 1
        if rows[t] < -1 or rows[t] >= marks.shape[0]:
            return 2
    for t in range(rows.shape[0]):
        before = -1
        idf = idf_of(data, weighting, t)
        most = np.float32(0.0)
        for p in range(indptr[t], indptr[t + 1]):
            doc = int(indices[p])
            if doc <= before or doc >= passages:
                return 3
            before = doc
            score = score_of(data, p, idf, weighting, doc)
            if not (score > 0 and np.isfinite(score)):
                return 4
            most = max(most, score)
        if largest[t] != most:
            return 5
        row = rows[t]
        if row >= 0:
            p = indptr[t]
            for block in range(marks.shape[1]):
                if marks[row, block, 1] != np.uint64(p - indptr[t]):
                    return 6
                word = np.uint64(0)
                while p < indptr[t + 1] and np.int64(indices[p]) >> 6 == block:
                    word |= np.uint64(1) << np.uint64(np.int64(indices[p]) & 63)
                    p += 1
                if marks[row, block, 0] != word:
                    return 6
    return 0
