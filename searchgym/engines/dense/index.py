"""The kinds of dense index: FAISS finds candidates, the vectors themselves give scores.

"flat" compares with every passage and is exact. "hnsw" looks at few passages; what it misses is its
recall, which is measured where it is built.

FAISS's sums move the order of near ties, so every candidate is scored again by a sum of fixed order
(products in double precision, rounded once to float32), and a bound on FAISS's rounding tells
whether the candidates surely hold the best k. If not (many passages tie), everything within the
bound is scored.

FAISS follows the numbers of a graph without asking where they lead. A file that was damaged or
forged is therefore searched only if its numbers stay within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError, MissingExtraError, check_known

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Candidates = Callable[[Floats, int], tuple[Floats, Rows]]
"""Maps queries (Q, D) and a number F to inner products and rows, both (Q, F), best first."""
_SPARE = 16
_SCORED_AT_ONCE = 1 << 22
KINDS: dict[str, dict[str, int]] = {
    "flat": {},
    "hnsw": {"links": 32, "ef_construction": 200, "ef_search": 128, "depth": 64},
}
"""Kind → its numbers. ``links`` per node and ``ef_construction`` candidates while building a graph,
``ef_search`` while searching; ``depth`` candidates at least are scored again with the vectors."""
AT_SEARCH = frozenset({"ef_search", "depth"})
"""Numbers that may be changed after an index is built."""
_MOST_ON_GPU = 1024
_LINKS_AT_ONCE = 1 << 24


def parameters(kind: str, given: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of an index, defaults filled in.

    Raises:
        EngineError: an unknown kind or number, or a number below 1.
    """
    check_known("dense index", KINDS, kind, error=EngineError)
    for name, value in given.items():
        check_known(f"number of index {kind!r}", KINDS[kind], name, error=EngineError)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise EngineError(f"{name} of index {kind!r} must be a whole number ≥ 1, got {value!r}")
    return {**KINDS[kind], **given}


def build_faiss(kind: str, vectors: Vectors, numbers: Mapping[str, int], threads: int = 1) -> Any:
    """A FAISS index over the vectors; ``None`` for "flat", which needs none.

    On one thread the result is always the same; HNSW graphs built on several depend on timing.
    """
    if kind == "flat":
        return None
    faiss = import_faiss()
    with faiss_threads(threads):
        index = faiss.IndexHNSWFlat(vectors.dim, numbers["links"], faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = numbers["ef_construction"]
        for block in vectors.blocks:
            index.add(np.ascontiguousarray(block))
    return index


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
    """Vectors with what finds candidates among them.

    Args:
        kind: a name of ``KINDS``.
        vectors: all vectors, in the order of the FAISS index.
        faiss_index: from ``build_faiss`` or a file; ``None`` for "flat".
        numbers: from ``parameters``.
        gpu: search on the first GPU; ``None``: if FAISS has GPU code and sees one (HNSW is a CPU
            index in FAISS).
    """

    def __init__(
        self,
        kind: str,
        vectors: Vectors,
        faiss_index: Any,
        numbers: Mapping[str, int],
        *,
        gpu: bool | None = None,
    ) -> None:
        self.kind, self.vectors, self.numbers = kind, vectors, dict(numbers)
        self.depth = self.numbers.get("depth", 0)
        self._index: Any = faiss_index
        self._gpu: Any = None
        self._resources: Any = None
        if kind == "hnsw":
            self._index.hnsw.efSearch = self.numbers["ef_search"]
        if gpu or (gpu is None and kind != "hnsw" and gpu_is_there()):
            self._to_gpu()

    def search(self, queries: Floats, k: int) -> list[tuple[Rows, Floats]]:
        """The best rows of each query (Q, D) with exact scores, ties by row; at most k."""
        n = len(self.vectors)
        if not k or not len(queries):
            return [(np.zeros(0, np.int64), np.zeros(0, np.float32))] * len(queries)
        fetch = max(self.depth, 2 * k)
        if self.kind == "flat" or fetch >= n:
            gpu = self._gpu if self.kind == "flat" and k <= _MOST_ON_GPU else None
            return self.vectors.nearest(queries, min(k, n), gpu and gpu.search)
        candidates = self.candidates(queries, fetch)
        return [
            self.vectors.best(query, rows[rows >= 0], k)
            for query, rows in zip(queries, candidates, strict=True)
        ]

    def candidates(self, queries: Floats, fetch: int) -> Rows:
        """Rows (Q, fetch) in the order FAISS gives them, before exact scoring; −1: none."""
        rows: NDArray[np.int64]
        _, rows = self._index.search(queries, fetch)
        return rows.astype(np.int64)

    def _to_gpu(self) -> None:
        faiss = import_faiss()
        if self.kind == "hnsw":
            raise EngineError('FAISS searches "hnsw" on the CPU only: gpu=False, or kind="flat"')
        if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
            raise EngineError("gpu=True needs the package faiss-gpu and a GPU this FAISS sees")
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


@contextmanager
def faiss_threads(threads: int) -> Iterator[None]:
    """FAISS's number of threads, set for a while."""
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _longest(block: Floats) -> float:
    return float(np.sqrt((block.astype(np.float64) ** 2).sum(axis=1).max()))


# --- files ------------------------------------------------------------------------------------
def read_faiss(path: str) -> Any:
    """A FAISS index from a file, memory-mapped as far as the installed FAISS can."""
    faiss = import_faiss()
    flag = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP)
    try:
        return faiss.read_index(path, flag)
    except (RuntimeError, MemoryError) as error:
        reason = (str(error).splitlines() or ["it asks for more memory than there is"])[0]
        raise EngineError(f"{path} is not a readable FAISS index: {reason}") from error


def check_graph(index: Any, passages: int, dim: int, file: Path) -> None:
    """``EngineError`` if an HNSW index could make FAISS read outside of it, or is not the one that
    the manifest describes."""
    faiss = import_faiss()
    wanted = "IndexHNSWFlat"
    right = (wanted, passages, dim, faiss.METRIC_INNER_PRODUCT)
    if (type(index).__name__, index.ntotal, index.d, index.metric_type) != right:
        raise EngineError(
            f"{file} holds a {type(index).__name__} of {index.ntotal:,} vectors of {index.d} "
            f"dimensions, expected a {wanted} of {passages:,} of {dim}"
        )
    flat = faiss.downcast_index(index.storage)
    size = codes.size() if (codes := getattr(flat, "codes", None)) is not None else -1
    whole = (flat.ntotal, flat.d, size) == (passages, dim, 4 * passages * dim)
    if not (whole and _graph(index.hnsw, passages)):
        raise EngineError(f"{file} is damaged: it leads out of itself. Build it again")


def _graph(hnsw: Any, n: int) -> bool:
    """Check that every node's links lie in its own part of the list and lead to nodes of that
    level."""
    faiss = import_faiss()
    levels: NDArray[np.int32] = faiss.vector_to_array(hnsw.levels)
    offsets = faiss.vector_to_array(hnsw.offsets).astype(np.int64)
    upto = faiss.vector_to_array(hnsw.cum_nneighbor_per_level).astype(np.int64)
    size = hnsw.neighbors.size()
    if len(levels) != n or len(offsets) != n + 1 or len(upto) < 2 or upto[0] != 0:
        return False
    if (np.diff(upto) < 0).any() or levels.min() < 1 or levels.max() >= len(upto):
        return False
    if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) != upto[levels]).any():
        return False
    entry, top = hnsw.entry_point, hnsw.max_level
    if not 0 <= entry < n or top != levels[entry] - 1 or top != levels.max() - 1:
        return False
    links: NDArray[np.int32] = faiss.rev_swig_ptr(hnsw.neighbors.data(), size)
    for start in range(0, size, _LINKS_AT_ONCE):
        part = links[start : start + _LINKS_AT_ONCE]
        if part.min() < -1 or part.max() >= n:
            return False
    for node in np.flatnonzero(levels > 1).tolist():
        for level in range(1, int(levels[node])):
            part = links[offsets[node] + upto[level] : offsets[node] + upto[level + 1]]
            if (levels[part[part >= 0]] <= level).any():
                return False
    return True
