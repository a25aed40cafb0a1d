"""BM25 over all postings at once: term and passage of every word in, a sparse matrix out.

Robertson and Zaragoza (2009); the variants by the names of Kamphuis et al. (2020), Table 1. The
numbers are those of the package bm25s, bit for bit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

METHODS = ("lucene", "robertson", "atire", "bm25+", "okapi")
_DELTA = 1.0
"""What "bm25+" adds for a word that occurs at all."""


class Postings(NamedTuple):
    """The words of all passages, counted: sorted by term, then by passage."""

    passages: NDArray[np.int32]  # (postings,) position in the corpus
    counts: NDArray[np.float32]  # (postings,) how often the term occurs there
    indptr: NDArray[np.int64]  # (terms + 1,) where each term's postings begin


def count_postings(terms: NDArray[np.int32], lengths: NDArray[np.int64], n_terms: int) -> Postings:
    """Count the terms of each passage.

    Args:
        terms: (words,) Term numbers of all passages, one after the other.
        lengths: (passages,) Number of words of each.
        n_terms: Size of the vocabulary.
    """
    n = len(lengths)
    pairs = terms.astype(np.int64) * n
    pairs += np.repeat(np.arange(n), lengths)
    pairs.sort()
    first = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
    counts = np.diff(first, append=len(pairs)).astype(np.float32)
    term, passage = np.divmod(pairs[first], n)
    indptr = np.zeros(n_terms + 1, np.int64)
    np.cumsum(np.bincount(term, minlength=n_terms), out=indptr[1:])
    return Postings(passage.astype(np.int32), counts, indptr)


def score_postings(
    found: Postings, lengths: NDArray[np.int64], method: str, k1: float, b: float
) -> NDArray[np.float32]:
    """Return the scores (postings,) of a method.

    "okapi" is here "atire" with Lucene's idf, which is never zero: the caller exchanges it. For
    "bm25+", a score is what a matching passage has above one that does not match.
    """
    df = np.diff(found.indptr)
    idf = np.repeat(_idf(df, len(lengths), method), df)
    length = lengths[found.passages]
    norm = k1 * ((1 - b) + b * length / lengths.mean())
    tf = found.counts
    if method in ("lucene", "robertson"):
        return (idf * (tf / (norm + tf))).astype(np.float32)
    saturated = (tf * np.float32(k1 + 1)) / (tf + norm)
    if method == "bm25+":
        return (idf * (saturated + _DELTA) - idf * np.float32(_DELTA)).astype(np.float32)
    return (idf * saturated).astype(np.float32)


def _idf(df: NDArray[np.int64], n: int, method: str) -> NDArray[np.float32]:
    """Inverse document frequency (terms,) of a method; 0 where no passage has the term."""
    of = {
        "lucene": lambda df: math.log(1 + (n - df + 0.5) / (df + 0.5)),
        "robertson": lambda df: math.log(max(1, (n - df + 0.5) / (df + 0.5))),
        "atire": lambda df: math.log(n / df),
        "bm25+": lambda df: math.log((n + 1) / df),
    }["lucene" if method == "okapi" else method]
    values, place = np.unique(df, return_inverse=True)  # few: most terms are rare
    return np.array([of(v) if v else 0.0 for v in values.tolist()], np.float32)[place]
