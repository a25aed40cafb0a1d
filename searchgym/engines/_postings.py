"""The score of a posting, for compiled retrieval: stored, or computed from a term frequency.

The type of an index's ``data`` tells which when a kernel is compiled. float32 are scores. Integers
are term frequencies, a byte each instead of four; the score is computed as the stored one was, with
the same roundings, so both kinds of index rank alike bit for bit. Importing this imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

Law = tuple[NDArray[Any], NDArray[np.float32], NDArray[Any]]
"""What scores follow from where ``data`` holds term frequencies: the number of each column's term
(columns,), int32; each term's idf (terms,); and each document's norm (documents,), float64, which
is k1 · (1 − b + b · length / mean length)."""
_NONE = np.zeros(0, np.float32)
STORED: Law = (_NONE, _NONE, _NONE)
"""The law of an index whose scores are stored."""


def score_of(data: NDArray[Any], posting: Any, idf: float, law: Law, doc: Any) -> Any:
    """Return a posting's score: what ``data`` holds, or Lucene's BM25 of the frequency there."""
    times = float(data[posting])
    return np.float32(times if data.dtype == np.float32 else idf * (times / (law[2][doc] + times)))


@overload(score_of, jit_options={"error_model": "numpy"})
def _score_of(data: Any, posting: Any, idf: Any, law: Any, doc: Any) -> Any:
    def stored(data: Any, posting: Any, idf: Any, law: Any, doc: Any) -> Any:
        return data[posting]

    def computed(data: Any, posting: Any, idf: Any, law: Any, doc: Any) -> Any:
        times = np.float64(data[posting])
        return np.float32(idf * (times / (law[2][doc] + times)))

    return stored if isinstance(data.dtype, types.Float) else computed


def idf_of(data: NDArray[Any], law: Law, column: int) -> Any:
    """Return the idf of a column's term; 0 where ``data`` holds scores."""
    return np.float32(0) if data.dtype == np.float32 else law[1][law[0][column]]


@overload(idf_of)
def _idf_of(data: Any, law: Any, column: Any) -> Any:
    def none(data: Any, law: Any, column: Any) -> Any:
        return np.float32(0)

    def found(data: Any, law: Any, column: Any) -> Any:
        return law[1][law[0][column]]

    return none if isinstance(data.dtype, types.Float) else found
