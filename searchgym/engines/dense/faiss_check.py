"""Checks of what FAISS relies on in a search, for an index that may have been altered.

FAISS follows the numbers of a graph or a list without asking where they lead. A file that was
damaged or forged is therefore read only if its digest is the recorded one, and searched only if its
numbers stay within it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError
from .index import import_faiss

_AT_ONCE = 1 << 24
_HEADER = 4 + 4 + 8
_MAGIC = (b"IxFI", b"IHNf")
_CLASSES = {"hnsw": "IndexHNSWFlat", "ivf": "IndexIVFFlat", "ivfpq": "IndexIVFPQ"}


def check_header(file: Path) -> None:
    """Compare what the first bytes of a published file promise with its size, before FAISS makes
    room for it; ``EngineError`` if it is too short."""
    with file.open("rb") as stream:
        head = stream.read(_HEADER)
    size = file.stat().st_size
    if len(head) < _HEADER or head[:1] != b"I":
        raise EngineError(f"{file} is not a readable FAISS index")
    if head[:4] not in _MAGIC:
        return  # another kind, which is refused by its name
    found_dim = int.from_bytes(head[4:8], "little", signed=True)
    count = int.from_bytes(head[8:16], "little", signed=True)
    if found_dim < 1 or count < 0 or size < 4 * found_dim * count:
        raise EngineError(
            f"{file} is damaged: {size:,} bytes cannot hold {count:,} vectors of {found_dim} "
            "dimensions"
        )


def check_index(
    kind: str, index: Any, passages: int, dim: int, file: Path, nlist: int | None = None
) -> None:
    """``EngineError`` if a FAISS index of a kind could make FAISS read outside of it, or is not the
    one that the manifest describes."""
    wanted = _CLASSES[kind]
    right = (wanted, passages, dim, import_faiss().METRIC_INNER_PRODUCT)
    if (type(index).__name__, index.ntotal, index.d, index.metric_type) != right:
        raise EngineError(
            f"{file} holds a {type(index).__name__} of {index.ntotal:,} vectors of {index.d} "
            f"dimensions, expected a {wanted} of {passages:,} of {dim}"
        )
    if kind == "hnsw":
        sound = _holds(index.storage, passages, dim) and _graph(index.hnsw, passages)
    else:
        sound = index.nlist == nlist and _lists(index, passages, dim)
    if not sound:
        raise EngineError(f"{file} is damaged: it leads out of itself. Build it again")


def _holds(flat: Any, n: int, dim: int) -> bool:
    """Check whether a flat index within another one holds the n vectors it counts."""
    flat = import_faiss().downcast_index(flat)
    codes = getattr(flat, "codes", None)
    return codes is not None and (flat.ntotal, flat.d, codes.size()) == (n, dim, 4 * n * dim)


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
    for start in range(0, size, _AT_ONCE):
        part = links[start : start + _AT_ONCE]
        if part.min() < -1 or part.max() >= n:
            return False
    for node in np.flatnonzero(levels > 1).tolist():
        for level in range(1, int(levels[node])):
            part = links[offsets[node] + upto[level] : offsets[node] + upto[level + 1]]
            if (levels[part[part >= 0]] <= level).any():
                return False
    return True


def _lists(index: Any, n: int, dim: int) -> bool:
    """Check that every vector stands in one list, once."""
    faiss = import_faiss()
    lists = index.invlists
    if lists.nlist != index.nlist or not _holds(index.quantizer, index.nlist, dim):
        return False
    if not np.isfinite(index.quantizer.reconstruct_n(0, index.nlist)).all():
        return False
    if lists.code_size != index.code_size:
        return False
    if type(index).__name__ == "IndexIVFPQ":
        pq = index.pq
        codes = faiss.vector_to_array(pq.centroids)
        bits = -(-pq.M * pq.nbits // 8)
        if pq.d != dim or pq.M * pq.dsub != dim or not pq.code_size == bits == lists.code_size:
            return False
        if len(codes) != dim * 2**pq.nbits or not np.isfinite(codes).all():
            return False
    seen = np.zeros(n, np.bool_)
    total = 0
    for cell in range(lists.nlist):
        if size := lists.list_size(cell):
            ids: NDArray[np.int64] = faiss.rev_swig_ptr(lists.get_ids(cell), size)
            if ids.min() < 0 or ids.max() >= n:
                return False
            seen[ids] = True
            total += size
    return bool(total == n and seen.all())
