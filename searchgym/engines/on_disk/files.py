"""The files of an index on disk: flat arrays, mapped and checked, and its passages as a corpus."""

from __future__ import annotations

import hashlib
import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import file_digest, parse_json, read_json
from ...types import Page, Passage

ABOUT, PASSAGES = "searchgym.json", "passages.bin"
FORMAT = 5
ARRAYS: Mapping[str, Any] = {
    "data": np.uint8, "indices": np.uint16, "indptr": np.int32, "largest": np.float32,
    "rows": np.int32, "marks": np.uint64, "shards": np.int64, "postings": np.int64,
    "terms": np.int32, "idf": np.float32, "norms": np.float64, "most": np.float32,
    "words": np.uint64, "numbers": np.int32, "places": np.int64, "keys": np.uint64,
    "owners": np.int32, "sums": np.uint64,
}  # fmt: skip
"""Arrays and their types. The first six are one ``bm25_index.BM25Index`` a shard, one after the
other; its columns are the terms of the shard, and ``data`` are term frequencies, so that a posting
takes three bytes (:func:`kind_of`). ``shards`` and ``postings`` (shards + 1,): where each shard's
columns and postings begin. ``terms`` (columns,): the number of each column's term, ascending within
a shard. ``idf`` (terms,) and ``norms`` (passages,): see ``_plain.Weighting``. ``most`` (terms,):
the largest score of each term. ``words`` (terms,): digests of the terms, ascending, and ``numbers``
their numbers. ``places`` (passages + 1,): where each passage begins in the file of passages.
``keys`` (3 × passages,): digests of ids, URLs and titles, ascending, and
``owners`` their passages. ``sums`` (passages,): digests of the passages (:func:`sum_of`), by which
each is checked when it is read."""
SHARD = 1 << 16
"""Passages of a shard: as many as two bytes can tell apart."""
WIDTHS = (1, 2, 4)
"""Bytes of a term frequency, of which an index has the fewest that hold its largest."""
BLOCK = 64
"""Passages per bitmap word, as in ``bm25_index``."""
LONG = 16
"""A column of one posting for so many passages, or of more, has a bitmap. Those of terms half as
frequent would take three times as much room and save an eighth of the time."""
SCATTERED = ("indptr", "largest", "rows", "terms", "words", "numbers", "keys", "owners", "places",
             "sums")  # fmt: skip
"""Arrays in which single numbers are looked up."""


def file_of(name: str) -> str:
    """Return the name of an array's file."""
    return f"{name}.bin"


def kind_of(name: str, width: int) -> np.dtype[Any]:
    """Return the type of an array's numbers; ``width``: bytes of a term frequency."""
    return np.dtype(f"u{width}" if name == "data" else ARRAYS[name])


def key_of(kind: str, text: str) -> int:
    """Return 64 bits by which something is found: a passage's "id", "url" or "title", or a
    "term"."""
    told = f"{kind}:{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")


def sum_of(line: bytes) -> int:
    """Return 64 bits of a stored passage's digest."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")


def is_index(folder: str | Path) -> bool:
    """Return whether a folder holds an index of this engine."""
    return (Path(folder) / ABOUT).is_file()


def read_about(folder: Path) -> dict[str, Any]:
    """Read what an index was built from.

    Raises:
        EngineError: it is absent, of another format, or says what cannot be.
    """
    try:
        about = read_json(folder / ABOUT)
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']}, not {FORMAT}; build it again")
        counts = [about[name] for name in ("passages", "shard", *ARRAYS)]
        if not all(type(count) is int and count >= 0 for count in counts) or min(counts[:2]) < 1:
            raise ValueError("it counts no passages")
        if about["shard"] > min(about["passages"], SHARD):
            raise ValueError("a shard holds more passages than can be")
        if about["width"] not in WIDTHS:
            raise ValueError(f"its frequencies have {about['width']!r} bytes")
        settings = about["settings"]
        if not isinstance(settings, dict) or not isinstance(about["digest"], str):
            raise TypeError("it does not say what it was built from")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineError(f"no readable BM25 index in {folder}: {error}") from error
    return dict(about)


def open_arrays(folder: Path, about: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Map the arrays of an index, and read each once; the passages, most of an index, are checked
    when they are read (:class:`StoredCorpus`).

    Their SHA-256 must be the recorded ones, and every number one that retrieval can rely on, so
    that no altered index can crash a process or give other rankings. That takes two to three
    seconds per gigabyte.

    Raises:
        EngineError: one was altered.
    """
    try:
        arrays: dict[str, NDArray[Any]] = {}
        maps: dict[str, mmap.mmap] = {}
        for name in ARRAYS:
            path, kind = folder / file_of(name), kind_of(name, about["width"])
            size, digest = path.stat().st_size, about["sha256"].get(name)
            if size != about[name] * kind.itemsize or file_digest(path) != digest:
                raise ValueError(f"{path.name} is not what was saved")
            if size:
                with path.open("rb") as file:
                    maps[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays[name] = np.frombuffer(maps.get(name, b""), kind)
        words = -(-about["shard"] // BLOCK)
        arrays["marks"] = arrays["marks"].reshape(-1, words, 2)
        if wrong := _fault(arrays, about["passages"], about["shard"]):
            raise ValueError(f"{wrong} holds impossible numbers")
        if (folder / PASSAGES).stat().st_size != arrays["places"][-1]:
            raise ValueError(f"{PASSAGES} is not what was saved")
        for name, mapped in maps.items():
            _keep_less(name, mapped)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EngineError(
            f"the BM25 index in {folder} is damaged ({error}): build it again"
        ) from error
    return arrays


def _keep_less(name: str, mapped: mmap.mmap) -> None:
    """Let go of what was read for checking; of ``SCATTERED`` arrays, read single pages from now on:
    most of their numbers belong to rare terms, and would push others out of memory."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
        if name in SCATTERED:
            mapped.madvise(mmap.MADV_RANDOM)


def _fault(arrays: Mapping[str, NDArray[Any]], passages: int, shard: int) -> str:
    """The first array that is not as ``ARRAYS`` says; empty if all are."""
    columns, known, count = len(arrays["terms"]), len(arrays["words"]), -(-passages // shard)
    lengths = {
        "shards": count + 1, "postings": count + 1, "indptr": columns + count, "largest": columns,
        "rows": columns, "indices": len(arrays["data"]), "idf": known, "norms": passages,
        "most": known, "numbers": known, "places": passages + 1, "keys": 3 * passages,
        "owners": 3 * passages, "sums": passages,
    }  # fmt: skip
    for name, length in lengths.items():
        if len(arrays[name]) != length:
            return name
    for name, last in (("shards", columns), ("postings", len(arrays["data"]))):
        edges = arrays[name]
        if edges[0] != 0 or edges[-1] != last or (np.diff(edges) < 0).any():
            return name
    norms = arrays["norms"]
    if not (np.isfinite(norms) & (norms >= 0)).all():
        return "norms"
    for name in ("idf", "most"):
        if not np.isfinite(arrays[name]).all():
            return name
    for at in range(count):
        if wrong := _fault_in_shard(arrays, at, shard, min(shard, passages - at * shard)):
            return wrong
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


def _fault_in_shard(arrays: Mapping[str, NDArray[Any]], at: int, shard: int, passages: int) -> str:
    """The first array that is wrong in one shard, which holds so many passages."""
    from .._kernel import fault
    from .._plain import FAULTS, Postings, Weighting

    here, held = (slice(*arrays[name][at : at + 2].tolist()) for name in ("shards", "postings"))
    terms = arrays["terms"][here]
    if ((terms < 0) | (terms >= len(arrays["idf"]))).any() or (terms[1:] <= terms[:-1]).any():
        return "terms"
    weighting = Weighting(terms, arrays["idf"], arrays["norms"][at * shard : (at + 1) * shard])
    edges = arrays["indptr"][here.start + at : here.stop + at + 1]
    index = Postings(
        arrays["data"][held], arrays["indices"][held], edges, arrays["largest"][here],
        arrays["rows"][here], arrays["marks"], weighting,
    )  # fmt: skip
    check: Any = fault
    return FAULTS[check(index, passages)]


_COLD = 20
"""MADV_COLD of Linux 5.4, which Python has no name for."""


class StoredCorpus(Corpus):
    """Passages that stay on disk, read one by one, in the order in which they were indexed; one
    that is not what was indexed is an ``EngineError``.

    Args:
        folder: Folder of the index.
        arrays: Its arrays, as :func:`open_arrays` gives them.
        digest: Digest of the passages.
    """

    def __init__(self, folder: Path, arrays: Mapping[str, NDArray[Any]], digest: str) -> None:
        self.name, self.digest, self._folder = folder.resolve().name, digest, folder
        self._places, self._keys = arrays["places"], arrays["keys"]
        self._owners, self._sums = arrays["owners"], arrays["sums"]
        with (folder / PASSAGES).open("rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):  # else 128 kB are read for each passage, and the index
            self._file.madvise(mmap.MADV_RANDOM)  # loses its place in memory to them

    def __len__(self) -> int:
        return len(self._places) - 1

    def __getitem__(self, index: int) -> Passage:  # type: ignore[override]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"passage {index} of {len(self)}")
        first, last = self._places[place : place + 2].tolist()
        try:
            line = self._file[first:last]
            if sum_of(line) != self._sums[place]:
                raise ValueError(f"passage {place} is not what was saved")
            read = parse_json(line, self._folder)
            if type(read) is not list or [*map(type, read)] != [str] * 4:
                raise ValueError("no passage")
        except (ValueError, RecursionError) as error:
            raise EngineError(
                f"the passages in {self._folder} are damaged ({error}): build the index again"
            ) from error
        return Passage(*read)

    def fetch(self, places: Iterable[int]) -> None:
        """Have passages that are to be read next brought from the disk all at once, where the
        system can; otherwise each is waited for in turn."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        page = mmap.ALLOCATIONGRANULARITY
        for place in places:
            first, last = self._places[place : place + 2].tolist()
            start = first // page * page
            self._file.madvise(mmap.MADV_WILLNEED, start, last - start)

    def release(self) -> None:
        """Let what was read be the first to go when memory is short, before pages of the index."""
        if sys.platform == "linux":
            with suppress(OSError):  # kernels before 5.4
                self._file.madvise(_COLD)

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(len(self)))

    def position(self, passage_id: str) -> int:
        """Index of a passage id; ``KeyError`` if absent."""
        for place in self._of("id", passage_id):
            return place
        raise KeyError(passage_id)

    def passage(self, passage_id: str) -> Passage:
        """Read the passage of an id; ``KeyError`` if absent."""
        return self[self.position(passage_id)]

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and bool(self._of("id", passage_id))

    def page(self, url: str) -> Page | None:
        """The document behind a URL, or with that title; see ``Corpus.page``."""
        name = url.strip()
        places = self._of("url", name)
        if not places and (titled := self._of("title", name)):
            places = self._of("url", self[titled[0]].url)
        if not places:
            return None
        parts = [self[place] for place in places]
        text = "\n\n".join(part.text for part in parts)
        return Page(parts[0].url, parts[0].title, text, tuple(part.id for part in parts))

    def _of(self, kind: str, text: str) -> list[int]:
        """Places of the passages with this "id", "url" or "title", in ascending order."""
        key = np.uint64(key_of(kind, text))
        first = int(np.searchsorted(self._keys, key))
        last = int(np.searchsorted(self._keys, key, side="right"))
        return sorted(self._owners[first:last].tolist())
