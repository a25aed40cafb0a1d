"""The vectors of a corpus: FAISS finds candidates among them, they themselves give the scores.

FAISS's sums move the order of near ties, so every candidate is scored again by a sum of fixed order
(products in double precision, rounded once to float32), and a bound on FAISS's rounding tells
whether the candidates surely hold the best k. If not (many passages tie), everything within the
bound is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError, MissingExtraError

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Candidates = Callable[[Floats, int], tuple[Floats, Rows]]
"""Maps queries (Q, D) and a number F to inner products and rows, both (Q, F), best first."""
_SPARE = 16
_SCORED_AT_ONCE = 1 << 22
_MOST_ON_GPU = 1024


class Vectors:
    """(N, D) float32 vectors in one or more blocks, which may be memory-mapped.

    Args:
        blocks: arrays (N_i, D), C-contiguous float32.
        longest: the largest norm of a row; by default all are read for it.
    """

    def __init__(self, blocks: Sequence[Floats], *, longest: float | None = None) -> None:
        self.blocks = [block for block in blocks if len(block)]
        self.starts = np.cumsum([0, *map(len, self.blocks)]).astype(np.int64)
        self.dim = int(blocks[0].shape[1])
        self.longest = max(map(_longest, self.blocks)) if longest is None else longest

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
        step = max(1, _SCORED_AT_ONCE // self.dim)
        parts = [
            (self.take(rows[lo : lo + step]) * wide).sum(axis=1) for lo in range(0, len(rows), step)
        ]
        return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)

    def best(self, query: Floats, rows: Rows, k: int) -> tuple[Rows, Floats]:
        """The k best of some rows, ties by row: rows and scores, both (min(k, M),)."""
        scores = self.score(query, rows)
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]

    def nearest(
        self, queries: Floats, k: int, candidates: Candidates | None = None
    ) -> list[tuple[Rows, Floats]]:
        """Return the k best rows of each query (Q, D), exactly, with their scores; ties by row."""
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


class DenseIndex:
    """Vectors, compared with every query.

    Args:
        vectors: all vectors.
        gpu: search on the first GPU; ``None``: if FAISS has GPU code and sees one.
    """

    def __init__(self, vectors: Vectors, *, gpu: bool | None = None) -> None:
        self.vectors = vectors
        self._gpu: Any = None
        if gpu or (gpu is None and gpu_is_there()):
            self._to_gpu()

    def search(self, queries: Floats, k: int) -> list[tuple[Rows, Floats]]:
        """The best rows of each query (Q, D) with exact scores, ties by row; at most k."""
        if not k or not len(queries):
            return [(np.zeros(0, np.int64), np.zeros(0, np.float32))] * len(queries)
        gpu = self._gpu if k <= _MOST_ON_GPU else None
        return self.vectors.nearest(queries, min(k, len(self.vectors)), gpu and gpu.search)

    def _to_gpu(self) -> None:
        if not gpu_is_there():
            raise EngineError("gpu=True needs the package faiss-gpu and a GPU this FAISS sees")
        faiss = import_faiss()
        self._resources = faiss.StandardGpuResources()
        self._gpu = faiss.GpuIndexFlatIP(self._resources, self.vectors.dim)
        for block in self.vectors.blocks:
            self._gpu.add(np.ascontiguousarray(block))


def gpu_is_there() -> bool:
    """Check whether this FAISS has GPU code and sees a GPU."""
    faiss = import_faiss()
    return hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


def import_faiss() -> Any:
    """The module; ``MissingExtraError`` where it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError('engine "dense"', "dense") from error
    return faiss


def _longest(block: Floats) -> float:
    return float(np.sqrt((block.astype(np.float64) ** 2).sum(axis=1).max()))
