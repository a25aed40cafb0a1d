"""Building an index on disk from a stream of passages, none of which stays in memory.

The stream is read once. Each shard of passages is written when it is full; what depends on all
passages, such as how much a term can score at most, is written last. Where all of them tell another
language than the first ones did, they are indexed again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...objects import is_number
from ...storage.files import file_digest, writing
from ...types import Passage
from ..analysis import Analyser, NewTermIds, as_text
from ..bm25 import analyser_of, choose_analysis, sample
from ..bm25_index import bitmaps
from .files import (
    ABOUT,
    ARRAYS,
    FORMAT,
    LONG,
    PASSAGES,
    SHARD,
    WIDTHS,
    StoredCorpus,
    file_of,
    key_of,
    kind_of,
    sum_of,
)

_FIRST = 10_000
"""Passages of a stream by which its language is told until all of it has been read."""
_TIMES = "times.tmp"
"""Term frequencies until the largest is known, and with it the type that holds them all."""


def build(
    folder: str | Path,
    passages: Iterable[Passage],
    *,
    k1: float = 0.9,
    b: float = 0.4,
    stemmer: str | None = "porter",
    stopwords: str | Iterable[str] | None = "lucene",
    lowercase: bool = True,
    unicode: bool | None = None,
    shard: int = SHARD,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Index a stream of passages into a folder, which appears whole or not at all.

    Args:
        folder: Folder to write; empty or absent.
        passages: Passages with different ids. Ties are ordered as they come: by id, if they are a
            corpus.
        k1: Saturation of term frequency, at least 0.
        b: Share of length normalisation, 0 to 1.
        stemmer: Analysis, with the next three, as of ``BM25Engine``.
        stopwords: See above.
        lowercase: See above.
        unicode: See above; by default, as there, where the passages are not in English.
        shard: Passages that are searched together, at most 65,536.
        progress: Told, by the thousand, how many more have been read.

    Raises:
        EngineError: impossible options, the folder holds something, the stream is empty, or an id
            occurs twice.
    """
    if not (is_number(k1) and k1 >= 0 and is_number(b) and 0 <= b <= 1 and 1 <= shard <= SHARD):
        raise EngineError(
            f"BM25 needs k1 ≥ 0, 0 ≤ b ≤ 1 and a shard of 1 to {SHARD} passages, got k1={k1!r}, "
            f"b={b!r}, shard={shard!r}"
        )
    words = stopwords if isinstance(stopwords, str) else sorted(stopwords or ())
    settings: dict[str, Any] = {
        "k1": float(k1),
        "b": float(b),
        "stopwords": words,
        "lowercase": lowercase,
    }
    folder = Path(folder)
    _check_empty(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    read = iter(passages) if progress is None else _counted(passages, progress)
    try:
        if unicode is not None:
            made = _write(staging / "1", read, settings, unicode, stemmer, shard)
        else:
            told = passages.unicode if isinstance(passages, Corpus) else None
            choose = partial(choose_analysis, stemmer=stemmer, unicode=told if lowercase else False)
            first = passages if isinstance(passages, Corpus) else list(islice(read, _FIRST))
            chosen = choose(sample(first))
            if first is not passages:
                read = chain(first, read)
            made = _write(staging / "1", read, settings, *chosen, shard)
            if (better := choose(sample(made.corpus()))) != chosen:
                made = _write(staging / "2", made.corpus(), settings, *better, shard)
        if isinstance(passages, Corpus):
            made.about["digest"] = passages.digest
        (made.folder / ABOUT).write_text(json.dumps(made.about), encoding="ascii")
        try:
            os.replace(made.folder, folder)
        except OSError:
            _check_empty(folder)  # another build was faster
            with writing(folder):
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _Made(NamedTuple):
    """An index without its description."""

    folder: Path
    about: dict[str, Any]

    def corpus(self) -> StoredCorpus:
        names = ("places", "keys", "owners", "sums")
        arrays = {name: np.fromfile(self.folder / file_of(name), ARRAYS[name]) for name in names}
        return StoredCorpus(self.folder, arrays, self.about["digest"])


def _write(
    folder: Path, passages: Iterable[Passage], settings: Mapping[str, Any], unicode: bool,
    stemmer: str | None, shard: int,
) -> _Made:  # fmt: skip
    """Write all files but the description into a new folder."""
    folder.mkdir()
    analyser = analyser_of(unicode, stemmer, settings["stopwords"], lowercase=settings["lowercase"])
    with ExitStack() as files:
        written = _Writer(folder, files, analyser, shard)
        for passage in passages:
            written.add(passage)
        written.flush()
    about = written.finish(settings["k1"], settings["b"])
    told = {**settings, "stemmer": stemmer, "unicode": unicode}
    return _Made(folder, {**about, "format": FORMAT, "settings": told})


def _counted(passages: Iterable[Passage], progress: Callable[[int], object]) -> Iterator[Passage]:
    """Pass passages on, and tell of every thousand."""
    for number, passage in enumerate(passages, 1):
        yield passage
        if number % 1000 == 0:
            progress(1000)


def _check_empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise EngineError(f"{folder} holds files already; choose an empty folder")


class _Writer:
    """The files of an index while they are written."""

    def __init__(self, folder: Path, files: ExitStack, analyser: Analyser, shard: int) -> None:
        self.folder, self.shard = folder, shard
        self.numbers = NewTermIds(analyser)
        self.hash = hashlib.sha256()
        self.places, self.keys, self.sums = array("q", [0]), array("Q"), array("Q")
        self.lengths, self.row = array("i"), array("i")
        self.columns = array("q", [0])
        """Columns written before each shard."""
        self.postings = array("q", [0])
        """Postings written before each shard."""
        self.holding = np.zeros(0, np.int64)
        """Passages that hold each term."""
        self._files: dict[str, BinaryIO] = {
            name: files.enter_context((folder / file_of(name)).open("wb"))
            for name in ("indices", "indptr", "terms")
        }
        self._times = files.enter_context((folder / _TIMES).open("wb"))
        self.most_times = 0
        self._passages = files.enter_context((folder / PASSAGES).open("wb"))

    def add(self, passage: Passage) -> None:
        line = json.dumps(passage).encode("ascii")
        self._passages.write(line)
        self.places.append(self.places[-1] + len(line))
        self.sums.append(sum_of(line))
        for kind, text in (("id", passage.id), ("url", passage.url), ("title", passage.title)):
            self.keys.append(key_of(kind, text))
        for piece in passage:
            self.hash.update(piece.encode("utf-8", "surrogatepass") + b"\0")
        row = self.numbers.of(as_text((passage.title, passage.text)))
        self.row.extend(row)
        self.lengths.append(len(row))
        if len(self.lengths) % self.shard == 0:
            self.flush()

    def flush(self) -> None:
        """Write the shard that has been read: its columns in ascending order of terms."""
        first = self.shard * (len(self.columns) - 1)
        lengths = np.asarray(self.lengths[first:], np.int64)
        if not len(lengths):
            return
        pairs = np.asarray(self.row, np.int64) * self.shard
        pairs += np.repeat(np.arange(len(lengths)), lengths)
        del self.row[:]
        pairs, times = np.unique(pairs, return_counts=True)
        of = pairs // self.shard
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        terms, edges = of[starts], np.append(starts, len(of))
        if len(of) > np.iinfo(ARRAYS["indptr"]).max:
            raise EngineError(f"{len(lengths)} passages have {len(of):,} words; set shard lower")
        holding = np.zeros(len(self.numbers.vocabulary), np.int64)
        holding[: len(self.holding)] = self.holding
        holding[terms] += np.diff(edges)
        self.holding = holding
        self.most_times = max(self.most_times, int(times.max(initial=0)))
        times.astype(np.uint32).tofile(self._times)
        self._write("indices", pairs % self.shard)
        self._write("indptr", edges)
        self._write("terms", terms)
        self.postings.append(self.postings[-1] + len(pairs))
        self.columns.append(self.columns[-1] + len(terms))

    def finish(self, k1: float, b: float) -> dict[str, Any]:
        """Write what follows from all passages; return the facts of the index."""
        count = len(self.lengths)
        if not count:
            raise EngineError("there is no passage to index")
        shard = min(self.shard, count)
        keys = np.asarray(self.keys, np.uint64)
        if len(np.unique(keys[::3])) < count:
            raise EngineError("an id of a passage occurs twice; ids must differ")
        order = np.argsort(keys, kind="stable")
        hashes = np.array([key_of("term", t) for t in self.numbers.vocabulary], np.uint64)
        numbers = np.argsort(hashes, kind="stable")
        words = hashes[numbers]
        if (words[1:] == words[:-1]).any():
            raise EngineError("two words have one digest of 64 bits")
        self._save("places", np.asarray(self.places, np.int64))
        self._save("sums", np.asarray(self.sums, np.uint64))
        self._save("keys", keys[order])
        self._save("owners", (order // 3).astype(np.int32))
        self._save("words", words)
        self._save("numbers", numbers.astype(np.int32))
        self._save("shards", np.asarray(self.columns, np.int64))
        self._save("postings", np.asarray(self.postings, np.int64))
        lengths = np.asarray(self.lengths, np.int64)
        norms = k1 * ((1 - b) + b * lengths / (lengths.mean() or 1.0))
        idf = _idf(self.holding, count)
        self._save("norms", norms)
        self._save("idf", idf)
        width = next(n for n in WIDTHS if self.most_times < 256**n)
        self._bounds(idf, norms, width, shard)
        sizes = {
            name: (self.folder / file_of(name)).stat().st_size // kind_of(name, width).itemsize
            for name in ARRAYS
        }
        digests = {name: file_digest(self.folder / file_of(name)) for name in ARRAYS}
        return {
            **sizes, "passages": count, "shard": shard, "width": width, "sha256": digests,
            "digest": self.hash.hexdigest()[:16],
        }  # fmt: skip

    def _bounds(
        self, idf: NDArray[np.float32], norms: NDArray[np.float64], width: int, shard: int
    ) -> None:
        """Write the term frequencies, ``width`` bytes each, the largest score of each column and of
        each term, and the bitmaps."""
        most = np.zeros(len(idf), np.float32)
        indptr, terms = (
            np.fromfile(self.folder / file_of(name), ARRAYS[name]) for name in ("indptr", "terms")
        )
        bitmapped = 0
        with (
            (self.folder / _TIMES).open("rb") as told,
            (self.folder / file_of("indices")).open("rb") as indices,
            ExitStack() as files,
        ):
            out = {
                name: files.enter_context((self.folder / file_of(name)).open("wb"))
                for name in ("data", "largest", "rows", "marks")
            }
            for at, (low, high) in enumerate(itertools.pairwise(self.columns)):
                edges = indptr[low + at : high + at + 1]
                size = int(edges[-1])
                times = np.fromfile(told, np.uint32, size)
                places = np.fromfile(indices, ARRAYS["indices"], size)
                weight = np.repeat(idf[terms[low:high]], np.diff(edges))
                here = norms[at * self.shard :][places]
                scores = (weight * (times / (here + times))).astype(np.float32)
                largest = np.maximum.reduceat(scores, edges[:-1]) if size else scores
                most[terms[low:high]] = np.maximum(most[terms[low:high]], largest)
                rows, marks = bitmaps(places, edges, shard, LONG)
                rows[rows >= 0] += bitmapped
                bitmapped += len(marks)
                times.astype(kind_of("data", width)).tofile(out["data"])
                for name, made in (("largest", largest), ("rows", rows), ("marks", marks)):
                    made.tofile(out[name])
        (self.folder / _TIMES).unlink()
        self._save("most", most)

    def _write(self, name: str, values: NDArray[Any]) -> None:
        values.astype(ARRAYS[name], copy=False).tofile(self._files[name])

    def _save(self, name: str, values: NDArray[Any]) -> None:
        values.astype(ARRAYS[name], copy=False).tofile(self.folder / file_of(name))


def _idf(holding: NDArray[np.int64], passages: int) -> NDArray[np.float32]:
    """Lucene's inverse document frequency of each term."""
    different, which = np.unique(holding, return_inverse=True)
    values = [math.log(1 + (passages - n + 0.5) / (n + 0.5)) for n in different.tolist()]
    return np.array(values, np.float32)[which]
