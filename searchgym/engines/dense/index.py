"""The kinds of dense index: FAISS finds candidates, the vectors themselves give scores.

"flat" compares with every passage and is exact. "hnsw", "ivf" and "ivfpq" look at few passages;
what they miss is their recall, which is measured where they are built.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError, MissingExtraError, unknown
from .vectors import Floats, Rows, Vectors

KINDS: dict[str, dict[str, int | None]] = {
    "flat": {},
    "ivf": {"nlist": None, "nprobe": None, "depth": 64},
    "ivfpq": {"nlist": None, "nprobe": None, "m": None, "nbits": 8, "depth": 256},
    "hnsw": {"links": 32, "ef_construction": 200, "ef_search": 128, "depth": 64},
}
"""Kind → its numbers. ``nlist`` cells, of which ``nprobe`` are looked at; ``m`` codes of ``nbits``
bits per vector; ``links`` per node and ``ef_construction`` candidates while building a graph,
``ef_search`` while searching; ``depth`` candidates at least are scored again with the vectors."""
AT_SEARCH = frozenset({"nprobe", "ef_search", "depth"})
"""Numbers that may be changed after an index is built."""
_TRAINED_ON = 256
_MOST_ON_GPU = 1024


def parameters(kind: str, given: Mapping[str, Any], n: int, dim: int) -> dict[str, int]:
    """The numbers of an index over n vectors (n, dim), defaults filled in.

    Raises:
        EngineError: an unknown kind or number, or a number below 1.
    """
    if kind not in KINDS:
        raise EngineError(unknown("dense index", kind, KINDS))
    for name, value in given.items():
        if name not in KINDS[kind]:
            raise EngineError(unknown(f"number of index {kind!r}", name, KINDS[kind]))
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise EngineError(f"{name} of index {kind!r} must be a whole number ≥ 1, got {value!r}")
    full = {**KINDS[kind], **given}
    if "nlist" in full:
        nlist = full["nlist"] or max(1, min(int(4 * math.sqrt(n)), n // 39))
        full["nlist"] = min(nlist, n)
        full["nprobe"] = min(full["nprobe"] or max(8, nlist // 8), full["nlist"])
    if "m" in full:
        full["m"] = full["m"] or max(m for m in range(1, max(2, dim // 4 + 1)) if dim % m == 0)
        if dim % full["m"]:
            raise EngineError(f"m must divide the {dim} dimensions, got {full['m']}")
        full["nbits"] = min(full["nbits"] or 8, max(1, int(math.log2(n))))
    return {name: int(value) for name, value in full.items() if value is not None}


def build_faiss(kind: str, vectors: Vectors, numbers: Mapping[str, int], threads: int = 1) -> Any:
    """A FAISS index over the vectors; ``None`` for "flat", which needs none.

    On one thread the result is always the same; HNSW graphs built on several depend on timing.
    """
    if kind == "flat":
        return None
    faiss = import_faiss()
    product = faiss.METRIC_INNER_PRODUCT
    with faiss_threads(threads):
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(vectors.dim, numbers["links"], product)
            index.hnsw.efConstruction = numbers["ef_construction"]
        else:
            coarse = faiss.IndexFlatIP(vectors.dim)
            shape = (coarse, vectors.dim, numbers["nlist"])
            if kind == "ivf":
                index = faiss.IndexIVFFlat(*shape, product)
            else:
                index = faiss.IndexIVFPQ(*shape, numbers["m"], numbers["nbits"], product)
                index.pq.cp.min_points_per_centroid = 1
            index.cp.min_points_per_centroid = 1  # silences a warning about small corpora
            index.cp.spherical = True
            index.train(_sample(vectors, _TRAINED_ON * max(numbers["nlist"], 256)))
        for block in vectors.blocks:
            index.add(np.ascontiguousarray(block))
    return index


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
        self._cells: Vectors | None = None
        self.owner: Any = faiss_index
        """Owner of the memory of ``vectors``, if they are a view into it."""
        if kind in ("ivf", "ivfpq"):
            self._index.nprobe = self.numbers["nprobe"]
            self._cells = Vectors([_centroids(faiss_index)], longest=_longest(faiss_index))
        if kind == "hnsw":
            self._index.hnsw.efSearch = self.numbers["ef_search"]
        if gpu or (gpu is None and kind != "hnsw" and gpu_is_there()):
            self._to_gpu()

    def search(self, queries: Floats, k: int) -> list[tuple[Rows, Floats]]:
        """The best rows of each query (Q, D) with exact scores, ties by rank; at most k."""
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
        if self._gpu is not None:
            _, rows = self._gpu.search(queries, fetch)
        elif self._cells is not None:
            # FAISS would choose the cells by sums that depend on the number of queries.
            near = self._cells.nearest(queries, self.numbers["nprobe"])
            cells = np.stack([rows for rows, _ in near])
            values = np.stack([scores for _, scores in near])
            _, rows = self._index.search_preassigned(queries, fetch, cells, values)
        else:
            _, rows = self._index.search(queries, fetch)
        return rows.astype(np.int64)

    def _to_gpu(self) -> None:
        faiss = import_faiss()
        if self.kind == "hnsw":
            raise EngineError('FAISS searches "hnsw" on the CPU only: gpu=False, or index="ivf"')
        if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
            raise EngineError("gpu=True needs the package faiss-gpu and a GPU this FAISS sees")
        self._resources = faiss.StandardGpuResources()
        if self.kind == "flat":
            self._gpu = faiss.GpuIndexFlatIP(self._resources, self.vectors.dim)
            for block in self.vectors.blocks:
                self._gpu.add(np.ascontiguousarray(block))
        else:
            self._gpu = faiss.index_cpu_to_gpu(self._resources, 0, self._index)
            self._gpu.nprobe = self.numbers["nprobe"]


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


def read_faiss(path: str) -> Any:
    """A FAISS index from a file, memory-mapped as far as the installed FAISS can."""
    faiss = import_faiss()
    flag = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP)
    try:
        return faiss.read_index(path, flag)
    except (RuntimeError, MemoryError) as error:
        reason = (str(error).splitlines() or ["it asks for more memory than there is"])[0]
        raise EngineError(f"{path} is not a readable FAISS index: {reason}") from error


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


def _sample(vectors: Vectors, most: int) -> Floats:
    n = len(vectors)
    return vectors.take(np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64)))


def _centroids(index: Any) -> Floats:
    centroids: Floats = index.quantizer.reconstruct_n(0, index.nlist)
    return centroids


def _longest(index: Any) -> float:
    return float(np.linalg.norm(_centroids(index), axis=1).max(initial=0.0))
