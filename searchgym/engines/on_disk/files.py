"""The files of an index on disk: flat arrays, opened by mapping them, and checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError

ABOUT, PASSAGES = "searchgym.json", "passages.bin"
FORMAT = 3
ARRAYS: Mapping[str, Any] = {
    "data": np.float32, "indices": np.int32, "indptr": np.int64, "largest": np.float32,
    "rows": np.int32, "marks": np.uint64, "shards": np.int64, "terms": np.int32,
    "most": np.float32, "words": np.uint64, "numbers": np.int32, "places": np.int64,
    "keys": np.uint64, "owners": np.int32,
}  # fmt: skip
"""Arrays and their types. The first six are a ``bm25_index.BM25Index`` whose columns are the terms
of one shard after the other, with places within the shard. ``shards`` (shards + 1,): where each
one's columns begin; ``terms`` (columns,): the number of each column's term, ascending within a
shard. ``most`` (terms,): the largest score of each term. ``words`` (terms,): digests of the terms,
ascending, and ``numbers`` their numbers. ``places`` (passages + 1,): where each passage begins in
the file of passages. ``keys`` (3 × passages,): digests of ids, URLs and titles, ascending, and
``owners`` their passages."""
SHARD = 1 << 18
"""Passages of a shard: their scores are kept near the processor while they are added up."""
BLOCK = 64
"""Passages per bitmap word, as in ``bm25_index``."""


def file_of(name: str) -> str:
    """Return the name of an array's file."""
    return f"{name}.bin"


def key_of(kind: str, text: str) -> int:
    """Return 64 bits by which something is found: a passage's "id", "url" or "title", or a
    "term"."""
    told = f"{kind}:{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")


def is_index(folder: str | Path) -> bool:
    """Return whether a folder holds an index of this engine."""
    return (Path(folder) / ABOUT).is_file()


def read_about(folder: Path) -> dict[str, Any]:
    """Read what an index was built from.

    Raises:
        EngineError: it is absent, of another format, or says what cannot be.
    """
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="ascii"))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']}, not {FORMAT}; build it again")
        counts = [about[name] for name in ("passages", "shard", *ARRAYS)]
        if not all(type(count) is int and count >= 0 for count in counts) or min(counts[:2]) < 1:
            raise ValueError("it counts no passages")
        if about["shard"] > about["passages"]:
            raise ValueError("a shard holds more passages than there are")
        settings = about["settings"]
        if not isinstance(settings, dict) or not isinstance(about["digest"], str):
            raise TypeError("it does not say what it was built from")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineError(f"no readable BM25 index in {folder}: {error}") from error
    return dict(about)


def open_arrays(folder: Path, about: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Map the arrays of an index, and read each once.

    Their SHA-256 must be the recorded ones, and every number one that retrieval can rely on, so
    that no altered index can crash a process or give other rankings. That takes two to three
    seconds per gigabyte.

    Raises:
        EngineError: one was altered.
    """
    try:
        arrays = {}
        for name, kind in ARRAYS.items():
            path = folder / file_of(name)
            size = path.stat().st_size
            if size != about[name] * np.dtype(kind).itemsize or digest_of(path) != about[
                "sha256"
            ].get(name):
                raise ValueError(f"{path.name} is not what was saved")
            arrays[name] = _mapped(path, kind, about[name])
        words = -(-about["shard"] // BLOCK)
        arrays["marks"] = arrays["marks"].reshape(-1, words, 2)
        if wrong := _fault(arrays, about["passages"], about["shard"]):
            raise ValueError(f"{wrong} holds impossible numbers")
        if (folder / PASSAGES).stat().st_size != arrays["places"][-1]:
            raise ValueError(f"{PASSAGES} is not what was saved")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EngineError(
            f"the BM25 index in {folder} is damaged ({error}): build it again"
        ) from error
    return arrays


def digest_of(path: Path) -> str:
    """Return a file's SHA-256 in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _mapped(path: Path, kind: Any, length: int) -> NDArray[Any]:
    """A read-only array, mapped if it holds anything."""
    array: NDArray[Any] = (
        np.asarray(np.memmap(path, kind, mode="r", shape=(length,)))
        if length
        else np.zeros(0, kind)
    )
    array.setflags(write=False)
    return array


def _fault(arrays: Mapping[str, NDArray[Any]], passages: int, shard: int) -> str:
    """The first array that is not as ``ARRAYS`` says; empty if all are."""
    from .._check import FAULTS, fault

    shards, terms, columns = arrays["shards"], arrays["terms"], len(arrays["terms"])
    count, known = -(-passages // shard), len(arrays["words"])
    lengths = {
        "shards": count + 1, "indptr": columns + 1, "largest": columns, "rows": columns,
        "indices": len(arrays["data"]), "most": known, "numbers": known, "places": passages + 1,
        "keys": 3 * passages, "owners": 3 * passages,
    }  # fmt: skip
    for name, length in lengths.items():
        if len(arrays[name]) != length:
            return name
    check: Any = fault
    index = [arrays[name] for name in ("data", "indices", "indptr", "largest", "rows", "marks")]
    if wrong := check(*index, shard):
        return FAULTS[wrong]
    if shards[0] != 0 or shards[-1] != columns or (np.diff(shards) < 0).any():
        return "shards"
    last = arrays["indptr"][shards[-2]]
    if (arrays["indices"][last:] >= passages - (count - 1) * shard).any():
        return "indices"
    rising = np.diff(terms) > 0
    rising[shards[1:-1][(shards[1:-1] > 0) & (shards[1:-1] < columns)] - 1] = True
    if not rising.all() or ((terms < 0) | (terms >= known)).any():
        return "terms"
    if not np.isfinite(arrays["most"]).all():
        return "most"
    if (arrays["words"][1:] <= arrays["words"][:-1]).any():
        return "words"
    if ((arrays["numbers"] < 0) | (arrays["numbers"] >= known)).any():
        return "numbers"
    if arrays["places"][0] != 0 or (np.diff(arrays["places"]) < 0).any():
        return "places"
    if (arrays["keys"][1:] < arrays["keys"][:-1]).any():
        return "keys"
    owners = arrays["owners"]
    return "owners" if ((owners < 0) | (owners >= passages)).any() else ""
