"""The BM25 score matrix: built by bm25s, stored as plain arrays, memory-mapped when loaded."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..corpora.corpus import Corpus
from ..errors import EngineError
from . import _plain
from ._plain import BLOCK, FAULTS, STORED, Postings, bitmap
from .analysis import Analyser, as_text, index_terms

if TYPE_CHECKING:
    from .passage_cache import TermCache

FIELDS = ("title", "text")
METHODS = ("lucene", "robertson", "atire", "bm25+", "okapi")
_FORMAT = 4
ABOUT = "index.json"
_ARRAYS = {"data": np.float32, "indices": np.int32, "indptr": np.int64,
           "largest": np.float32, "rows": np.int32, "marks": np.uint64}  # fmt: skip
_VOCABULARY = "vocabulary.json"
_FILES = (*(f"{name}.npy" for name in _ARRAYS), _VOCABULARY)
"""Files of an index. Their names in a folder hold a part of their digests, so that those of another
index can stand beside them (:func:`file_in`)."""
_OWN = re.compile(
    rf"(?:{'|'.join(_ARRAYS)}|vocabulary)(?:-[0-9a-f]{{16}}\.(?:npy|json)|\.(?:npy|json)\.part)"
)
_HEADER = 128
"""Bytes of an array's file before its numbers."""
_LONG = 64
"""A list of one posting for so many passages, or of more, has a bitmap."""


class BM25Index(NamedTuple):
    """Scores of every (term, passage) pair, and the number of each term."""

    postings: Postings
    vocabulary: Mapping[str, int]


@cache
def kernels() -> Any:
    """The compiled kernels, or ``_plain`` where numba is not installed. Imported once, when they
    are first needed: numba is heavy."""
    if find_spec("numba") is None:
        return _plain
    from . import _kernel

    return _kernel


def build_index(
    corpus: Corpus,
    analyser: Analyser,
    settings: Mapping[str, Any],
    kept: TermCache | None = None,
) -> BM25Index:
    """Score every (term, passage) pair of the corpus; only passages that are not ``kept`` are
    analysed."""
    fields = settings["fields"]
    texts = (as_text([getattr(p, field) for field in fields]) for p in corpus)
    if kept is None:
        documents, vocabulary = index_terms(analyser, texts)
    else:
        documents, vocabulary = kept.documents(list(texts), analyser)
    if not vocabulary:  # nothing but stop words: an index that never matches
        empty = np.zeros(0, np.float32)
        return _pack(empty, np.zeros(0, np.int32), np.zeros(1, np.int64), vocabulary, len(corpus))
    method = settings["method"]
    level = logging.getLogger("bm25s").level
    with warnings.catch_warnings(), _without_jax():
        # its tqdm asks for widgets, which nothing here needs
        warnings.filterwarnings("ignore", message="IProgress not found")
        import bm25s

    logging.getLogger("bm25s").setLevel(level or logging.WARNING)  # its import sets DEBUG
    # "okapi" has rank_bm25's idf, which bm25s lacks: start from an idf that is never zero.
    model = bm25s.BM25(
        k1=settings["k1"],
        b=settings["b"],
        delta=1.0,
        method="atire" if method == "okapi" else method,
        idf_method="lucene" if method == "okapi" else method,
    )
    built = model.build_index_from_ids(
        unique_token_ids=list(range(len(vocabulary))),
        corpus_token_ids=documents,
        show_progress=False,
    )
    data = np.ascontiguousarray(built["data"], dtype=np.float32)
    indices = np.ascontiguousarray(built["indices"], dtype=np.int32)
    indptr = np.ascontiguousarray(built["indptr"], dtype=np.int64)
    if method == "okapi":
        data = _okapi(data, indptr, len(corpus))
    # For "bm25+", bm25s stores what a matching passage scores above one that does not match, and
    # adds the rest, the same for all passages, at query time. Only matching passages are hits
    # here, so the rest is left out.
    return _pack(data, indices, indptr, vocabulary, len(corpus))


@contextmanager
def _without_jax() -> Iterator[None]:
    """Hide JAX from an import: bm25s computes with it as soon as it is imported, for which JAX
    takes three quarters of a GPU's memory. Only selecting the best would use it, which is done
    elsewhere. A program that has imported JAX by itself keeps it."""
    if "jax" in sys.modules:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("jax", None)


def _pack(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    vocabulary: Mapping[str, int],
    n_docs: int,
) -> BM25Index:
    """Drop postings that score nothing (idf 0); add each column's maximum and the bitmaps."""
    kept = data > 0
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    data, indices, indptr = data[kept], indices[kept], before[indptr]
    largest = np.zeros(len(vocabulary), np.float32)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        largest[filled] = np.maximum.reduceat(data, indptr[filled])
    rows, marks = bitmaps(indices, indptr, n_docs)
    arrays = [_frozen(array) for array in (data, indices, indptr, largest, rows, marks)]
    return BM25Index(Postings._make([*arrays, STORED]), vocabulary)


def bitmaps(
    indices: NDArray[Any], indptr: NDArray[Any], n_docs: int, long: int = _LONG
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Bitmaps of columns that hold one of ``long`` passages, or more: one passage is found in
    constant time (``Postings.marks``)."""
    least = max(1, -(-n_docs // long))
    filled = np.flatnonzero(np.diff(indptr) >= least)
    rows = np.full(len(indptr) - 1, -1, np.int32)
    rows[filled] = np.arange(len(filled))
    marks = np.zeros((len(filled), -(-n_docs // BLOCK), 2), np.uint64)
    for row, term in enumerate(filled.tolist()):
        marks[row] = bitmap(indices[indptr[term] : indptr[term + 1]], n_docs)
    return rows, marks


def _okapi(
    data: NDArray[np.float32], indptr: NDArray[np.int64], n_docs: int
) -> NDArray[np.float32]:
    """Exchange the idf: log((N − df + ½) / (df + ½)), negative ones raised to ¼ of the mean."""
    df = np.diff(indptr).astype(np.float64)
    lucene = np.log1p((n_docs - df + 0.5) / (df + 0.5))
    okapi = np.log(n_docs - df + 0.5) - np.log(df + 0.5)
    floor = 0.25 * math.fsum(okapi.tolist()) / len(okapi)
    okapi[okapi < 0] = floor
    if floor < 0:
        raise EngineError(
            'method "okapi" gives negative scores on this corpus (most words are in more than '
            'half of the passages); use method="lucene"'
        )
    factor = np.repeat(okapi / lucene, np.diff(indptr))
    return (data * factor).astype(np.float32)


def save_index(directory: Path, index: BM25Index, meta: Mapping[str, Any]) -> None:
    """Write arrays and vocabulary beside what the folder holds, then the description, which names
    them, then remove what it does not name."""
    from ..storage.files import LOCK, file_digest, waiting_lock, write_whole, writing

    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        found = {path.name for path in directory.iterdir()} - {LOCK}
    if ABOUT not in found and not all(map(_OWN.fullmatch, found)):
        raise EngineError(f"{directory} holds other files; choose an empty folder")
    with waiting_lock(directory / LOCK), writing(directory):
        digests: dict[str, str] = {}
        try:
            for name in _FILES:
                part = directory / f"{name}.part"
                with part.open("wb") as file:
                    if name == _VOCABULARY:
                        terms = sorted(index.vocabulary, key=index.vocabulary.__getitem__)
                        file.write(json.dumps(terms).encode("ascii"))
                    else:
                        array = getattr(index.postings, name.removesuffix(".npy"))
                        np.save(file, array, allow_pickle=False)
                digests[name] = file_digest(part)
                os.replace(part, file_in(directory, name, digests[name]))
            about = {"format": _FORMAT, "sha256": digests, **meta}
            write_whole(directory / ABOUT, json.dumps(about))
        finally:
            _tidy(directory)


def file_in(directory: Path, name: str, digest: str) -> Path:
    """Return the path of a file of an index by its digest; ``ValueError`` for what is none."""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{name} has no digest")
    stem, ending = name.split(".")
    return directory / f"{stem}-{digest[:16]}.{ending}"


def _tidy(directory: Path) -> None:
    """Remove files of an index that the description does not name."""
    try:
        digests = read_about(directory)["sha256"]
        named = {file_in(directory, name, digests[name]) for name in _FILES}
    except (EngineError, KeyError, TypeError, ValueError):
        named = set()
    for path in list(directory.iterdir()):
        old = path.name in _FILES and named  # of a format without digests in names
        if (old or _OWN.fullmatch(path.name)) and path not in named:
            path.unlink(missing_ok=True)


def read_about(directory: Path) -> dict[str, Any]:
    """Read a saved index's description; ``EngineError`` if it is absent or of another format."""
    from ..storage.files import read_json

    try:
        about = read_json(directory / ABOUT)
    except (OSError, ValueError, RecursionError) as error:
        raise EngineError(f"no readable BM25 index in {directory}: {error}") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise EngineError(f"the BM25 index in {directory} has another format: build it again")
    return about


def load_index(directory: Path, digests: Mapping[str, str], passages: int) -> BM25Index:
    """Memory-map the saved index of a corpus of so many passages.

    Every file is read once: its SHA-256 must be the recorded one, and every number must be one that
    retrieval can rely on (``_kernel.fault``), so that no altered index can crash a process.

    Raises:
        EngineError: it was altered.
    """
    from ..storage.files import file_digest, read_json

    try:
        files = {name: file_in(directory, name, digests[name]) for name in _FILES}
        for name, file in files.items():
            if file_digest(file) != digests[name]:
                raise ValueError(f"{file.name} is not what was saved")
        terms = read_json(files[_VOCABULARY])
        arrays: dict[str, Any] = {name: _mapped(files[f"{name}.npy"]) for name in _ARRAYS}
        vocabulary = {str(term): i for i, term in enumerate(terms)}
        _check_arrays(arrays, len(terms), passages)
        if len(vocabulary) != len(terms):
            raise ValueError("a term occurs twice")
    except (OSError, ValueError, TypeError, KeyError, EOFError, RecursionError) as error:
        raise EngineError(
            f"the BM25 index in {directory} is damaged ({error}): build it again"
        ) from error
    return BM25Index(Postings(**arrays), vocabulary)


def _check_arrays(arrays: Mapping[str, Any], terms: int, passages: int) -> None:
    """``ValueError`` naming the first array that is not as ``Postings`` says."""
    words = -(-passages // BLOCK)
    shapes = {
        "data": arrays["data"].shape[:1],
        "indices": arrays["data"].shape[:1],
        "indptr": (terms + 1,),
        "largest": (terms,),
        "rows": (terms,),
        "marks": (np.count_nonzero(arrays["rows"] >= 0), words, 2),
    }
    for name, kind in _ARRAYS.items():
        array = arrays[name]
        wanted = array.dtype == kind and array.shape == shapes[name] and array.flags.c_contiguous
        if not wanted:
            raise ValueError(f"{name} has the shape {array.shape} and the type {array.dtype}")
    if wrong := kernels().fault(Postings(**arrays), passages):
        raise ValueError(f"{FAULTS[wrong]} holds impossible numbers")


def _mapped(path: Path) -> NDArray[Any]:
    """An array, memory-mapped if it holds anything."""
    mode: Any = "r" if path.stat().st_size > _HEADER else None
    return _frozen(np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False)))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only like a memory map, so that the kernel is compiled for one kind of array."""
    array.setflags(write=False)
    return array
