"""Rows of vectors in memory-mapped blocks, and their exact nearest neighbours.

FAISS finds candidates fast, but its sums are cut up differently for one query and for many, which
moves last digits and hence the order of near ties. So candidates are only candidates: every one is
scored again by a sum whose order is fixed (products in double precision, added along the row,
rounded once to float32), and a bound on what FAISS may have got wrong decides whether the
candidates surely hold the best k. If not (many passages tie), everything within the bound is
scored. Scores and order are then the same alone, in a batch and on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Candidates = Callable[[Floats, int], tuple[Floats, Rows]]
"""Maps queries (Q, D) and a number F to inner products and rows, both (Q, F), best first."""
_SPARE = 16
_AT_ONCE = 1 << 22


class Vectors:
    """(N, D) float32 vectors in one or more blocks, which may be memory-mapped.

    Args:
        blocks: arrays (N_i, D), C-contiguous float32.
        ranks: what breaks ties, one number per row, lower first; default: the row itself.
        longest: the largest norm of a row.
    """

    def __init__(
        self, blocks: Sequence[Floats], *, ranks: Rows | None = None, longest: float = 1.0
    ) -> None:
        self.blocks = [block for block in blocks if len(block)]
        self.starts = np.cumsum([0, *map(len, self.blocks)]).astype(np.int64)
        self.dim = int(blocks[0].shape[1])
        self.ranks = ranks
        self.longest = longest

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, rows: Rows) -> Floats:
        """Copies of the rows (M, D)."""
        out = np.empty((len(rows), self.dim), dtype=np.float32)
        block = np.searchsorted(self.starts, rows, side="right") - 1
        for i in np.unique(block).tolist():
            here = block == i
            out[here] = self.blocks[i][rows[here] - self.starts[i]]
        return out

    def score(self, query: Floats, rows: Rows) -> Floats:
        """Inner products (M,) of a query (D,) with rows, independent of which others are asked."""
        wide = query.astype(np.float64)
        step = max(1, _AT_ONCE // self.dim)
        parts = [
            (self.take(rows[lo : lo + step]) * wide).sum(axis=1) for lo in range(0, len(rows), step)
        ]
        return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)

    def best(self, query: Floats, rows: Rows, k: int) -> tuple[Rows, Floats]:
        """The k best of some rows, ties by rank: rows and scores, both (min(k, M),)."""
        scores = self.score(query, rows)
        ranks = rows if self.ranks is None else self.ranks[rows]
        order = np.lexsort((ranks, -scores))[:k]
        return rows[order], scores[order]

    def nearest(
        self, queries: Floats, k: int, candidates: Candidates | None = None
    ) -> list[tuple[Rows, Floats]]:
        """Return the k best rows of each query (Q, D), exactly, with their scores; ties by rank."""
        n = len(self)
        fetch = min(n, k + _SPARE)
        near, near_rows = (candidates or self.scan)(queries, fetch)
        answers = []
        for query, values, rows in zip(queries, near, near_rows, strict=True):
            best, scores = self.best(query, rows, k)
            slack = self._slack(query)
            if fetch < n and not scores[-1] > values[-1] + slack:
                best, scores = self.best(query, self._above(query, scores[-1] - slack), k)
            answers.append((best, scores))
        return answers

    def scan(self, queries: Floats, fetch: int) -> tuple[Floats, Rows]:
        """FAISS's exhaustive search, block by block (nothing is copied into an index)."""
        import faiss

        best_values: Floats | None = None
        best_rows: Rows | None = None
        for start, block in zip(self.starts.tolist(), self.blocks, strict=False):
            values, rows = faiss.knn(
                queries, block, min(fetch, len(block)), metric=faiss.METRIC_INNER_PRODUCT
            )
            rows = rows.astype(np.int64) + start
            if best_values is None or best_rows is None:
                best_values, best_rows = values, rows
                continue
            values, rows = np.hstack([best_values, values]), np.hstack([best_rows, rows])
            order = np.argsort(-values, axis=1, kind="stable")[:, :fetch]
            best_values = np.take_along_axis(values, order, axis=1)
            best_rows = np.take_along_axis(rows, order, axis=1)
        assert best_values is not None
        assert best_rows is not None
        return best_values, best_rows

    def _above(self, query: Floats, least: float) -> Rows:
        """Rows whose inner product, as BLAS computes it, is at least ``least``."""
        block_rows = [
            np.flatnonzero(block @ query >= least) + start
            for start, block in zip(self.starts.tolist(), self.blocks, strict=False)
        ]
        return np.concatenate(block_rows).astype(np.int64)

    def _slack(self, query: Floats) -> float:
        """Double the largest error of a float32 inner product (Higham, 2002, §3.1)."""
        size = float(np.linalg.norm(query.astype(np.float64))) * self.longest
        return 2.0 * self.dim * 2.0**-24 * size * 1.01
