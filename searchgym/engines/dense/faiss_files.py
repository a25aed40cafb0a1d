"""FAISS files: those that others published, as they are, and checks of all that are opened.

Published are wiki-18 with e5 (Search-R1), flat and HNSW64. Row i of such an index is the i-th line
of its corpus file, whose id is the number i. The hub holds the file cut into ``part_aa``,
``part_ab``, …; put together in this order they are the file.

FAISS follows the numbers of a graph without asking where they lead. A file that was
damaged or forged is therefore searched only if its numbers stay within it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import LOCK, file_digest, waiting_lock
from .encoder import SentenceEncoder
from .index import DenseIndex, Floats, Rows, Vectors, import_faiss, parameters

JOINED = "joined.index"
_COMPARED, _LEAST_COSINE, _SAMPLE = 8, 0.9, 1 << 20
_NORMS, _ROWS = 256, 1 << 16
_AT_ONCE = 1 << 24
_HEADER = 4 + 4 + 8
_MAGIC = (b"IxFI", b"IHNf")


def is_published(path: Path) -> bool:
    """Check whether a path is a FAISS file, or a folder with one, whole or in parts."""
    return path.is_file() or any(path.glob("*.index")) or any(path.glob("part_*"))


def open_published(
    path: Path,
    corpus: Corpus,
    encoder: SentenceEncoder,
    numbers: dict[str, Any],
    *,
    ids: str | Path | None = None,
    gpu: bool | None = None,
    sha256: str | None = None,
) -> tuple[DenseIndex, Rows, str]:
    """The index, the corpus position of each of its rows, and its digest.

    Args:
        path: the file, or a folder with one ``*.index`` file or with ``part_*`` files (which are
            put together there once: this needs as much free disk as they take).
        corpus: the passages of the index.
        encoder: what the index was made with.
        numbers: ``ef_search`` and ``depth`` of an HNSW index.
        ids: a file with the passage id of each row, one a line; default: row i has the id "i".
        gpu: search a flat index on the GPU.
        sha256: of the file, as its publisher tells it (hubs do): a file with another one is not
            read. Without it, a file is taken for what it says it is, as far as that is possible.

    Raises:
        EngineError: another digest, or numbers that lead out of the file; sizes, ids or dimensions
            disagree, or the encoder gives other vectors.
    """
    file = _file(path)
    if sha256 is not None and file_digest(file) != sha256.lower():
        raise EngineError(f"{file} does not have the SHA-256 {sha256}: it is another file")
    check_header(file)
    loaded = read_faiss(str(file))
    kind, storage = _kind(loaded, file)
    faiss = import_faiss()
    if kind == "hnsw":
        check_graph(loaded, storage.ntotal, storage.d, file)
    if storage.codes.size() != 4 * storage.ntotal * storage.d:
        raise EngineError(f"{file} is damaged: it does not hold the vectors it counts")
    view = faiss.rev_swig_ptr(storage.get_xb(), storage.ntotal * storage.d)
    block: Floats = view.reshape(storage.ntotal, storage.d)
    if len(block) != len(corpus):
        raise EngineError(
            f"{file} has {len(block):,} vectors, corpus {corpus.name!r} {len(corpus):,} passages: "
            "they do not belong together"
        )
    if storage.d != encoder.dim:
        raise EngineError(
            f"{file} has {storage.d} dimensions, encoder {encoder.name} {encoder.dim}: give the "
            'encoder it was made with, for wiki-18 encoder="intfloat/e5-base-v2"'
        )
    positions = _positions(corpus, ids)
    _compare(block, positions, corpus, encoder, file)
    if kind == "hnsw":
        own = {"links": loaded.hnsw.nb_neighbors(1), "ef_construction": loaded.hnsw.efConstruction}
        numbers = {**own, **numbers}
    full = parameters(kind, numbers)
    vectors = Vectors([block], ranks=positions, longest=_longest(block))
    index = DenseIndex(kind, vectors, loaded if kind == "hnsw" else None, full, gpu=gpu)
    index.owner = loaded  # the vectors are a view into it
    return index, positions, _digest(file)


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    whole = sorted(path.glob("*.index"))
    if len(whole) > 1:
        names = ", ".join(f.name for f in whole)
        raise EngineError(f"{path} holds several indexes ({names}): name one of them")
    if whole:
        return whole[0]
    parts = sorted(path.glob("part_*"))
    expected = [f"part_a{chr(ord('a') + i)}" for i in range(len(parts))]
    if [p.name for p in parts] != expected:
        names = ", ".join(p.name for p in parts)
        raise EngineError(f"{path}: expected {', '.join(expected)}, found {names or 'no parts'}")
    need = sum(p.stat().st_size for p in parts)
    free = shutil.disk_usage(path).free
    if free < need:
        raise EngineError(
            f"putting the parts in {path} together takes {need:,} bytes, {free:,} are free: make "
            "room, or put them together elsewhere and name the file"
        )

    with waiting_lock(path / LOCK):  # several processes may come at once
        if not (path / JOINED).exists():
            partial = path / f"{JOINED}.part"
            with partial.open("wb") as out:
                for part in parts:
                    with part.open("rb") as stream:
                        shutil.copyfileobj(stream, out, 1 << 24)
                out.flush()
                os.fsync(out.fileno())
            os.replace(partial, path / JOINED)
    return path / JOINED


def _kind(index: Any, file: Path) -> tuple[str, Any]:
    """The kind, and the flat index that holds the vectors."""
    faiss = import_faiss()
    storage = index
    if isinstance(index, faiss.IndexHNSWFlat):
        storage = faiss.downcast_index(index.storage)
    if not isinstance(storage, faiss.IndexFlat):
        raise EngineError(
            f"{file} is a FAISS {type(index).__name__}; only flat and HNSW indexes can be used as "
            "they are, because others do not hold the vectors"
        )
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise EngineError(f"{file} compares by distance; only inner products are supported")
    return ("flat" if storage is index else "hnsw"), storage


def _positions(corpus: Corpus, ids: str | Path | None) -> Rows:
    names: Iterable[str] = map(str, range(len(corpus)))
    if ids is not None:
        try:
            names = Path(ids).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except OSError as error:
            raise EngineError(f"cannot read the ids: {error}") from error
    try:
        positions = np.fromiter((corpus.position(name) for name in names), dtype=np.int64)
    except KeyError as error:
        raise EngineError(
            f"corpus {corpus.name!r} has no passage {error}: rows of a published index are the "
            "passages 0, 1, 2, …; for other ids give ids=FILE, one id a line"
        ) from error
    if not len(positions) == len(np.unique(positions)) == len(corpus):
        raise EngineError(f"{ids} must name each of the {len(corpus):,} passages once")
    return positions


def _compare(
    block: Floats, positions: Rows, corpus: Corpus, encoder: SentenceEncoder, file: Path
) -> None:
    """Encode a few passages and hold them beside the file: a wrong encoder is no silent matter."""
    rows = np.unique(np.linspace(0, len(block) - 1, _COMPARED).astype(np.int64))
    passages = [corpus[p] for p in positions[rows].tolist()]
    ours = encoder.passages([(p.title, p.text) for p in passages]).astype(np.float64)
    theirs = block[rows].astype(np.float64)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosine = float(np.median((ours * theirs).sum(axis=1) / np.maximum(norms, 1e-12)))
    if cosine < _LEAST_COSINE:
        raise EngineError(
            f"{file} was not made from corpus {corpus.name!r} by encoder {encoder.name} with preset"
            f" {encoder.settings['preset']!r}: the median cosine of {len(rows)} passages is "
            f"{cosine:.3f}, expected at least {_LEAST_COSINE}"
        )


def _longest(block: Floats) -> float:
    """The largest norm of a row. Unit vectors, as published ones are, are told by a few of them:
    reading 60 GB at every start would be no service. Others are all read."""
    rows = block[np.unique(np.linspace(0, len(block) - 1, _NORMS).astype(np.int64))]
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    if np.abs(norms - 1).max() < 1e-3:
        return 1.01
    parts = (block[lo : lo + _ROWS] for lo in range(0, len(block), _ROWS))
    return max(float(np.linalg.norm(part.astype(np.float64), axis=1).max()) for part in parts)


def _digest(file: Path) -> str:
    """Size, first and last megabyte; see ``_longest`` for why not all of it."""
    h = hashlib.sha256(str(file.stat().st_size).encode())
    with file.open("rb") as stream:
        h.update(stream.read(_SAMPLE))
        stream.seek(max(0, file.stat().st_size - _SAMPLE))
        h.update(stream.read())
    return h.hexdigest()[:16]


# --- checks -----------------------------------------------------------------------------------
def read_faiss(path: str) -> Any:
    """A FAISS index from a file, memory-mapped as far as the installed FAISS can."""
    faiss = import_faiss()
    flag = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP)
    try:
        return faiss.read_index(path, flag)
    except (RuntimeError, MemoryError) as error:
        reason = (str(error).splitlines() or ["it asks for more memory than there is"])[0]
        raise EngineError(f"{path} is not a readable FAISS index: {reason}") from error


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
