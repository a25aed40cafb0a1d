"""BM25 over an index on disk: Tantivy finds candidates, Lucene's formula scores them exactly."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..batching import text_and_k
from ..corpora.corpus import Corpus
from ..errors import EngineError, MissingExtraError
from ..types import Hit, Passage, Query, Ranking
from ..worlds.world import World
from .analysis import WORD, Analyser

_ABOUT = "searchgym.json"
_FORMAT = 1
_FORWARD, _STARTS = "terms.bin", "starts.npy"
_HEAP, _LEAST = 500_000_000, 15_000_000
"""Bytes that a writing thread fills before it writes a segment: on disk, and Tantivy's least."""
_BUFFER = 1 << 20


class TantivyEngine:
    """Searches by BM25 (Robertson and Zaragoza, 2009) with the passages and the index on disk.

    Tantivy scores by k1 = 1.2 and b = 0.75, which its library fixes, and keeps lengths in one byte.
    Its best ``candidates`` are therefore scored again by Lucene's formula with the ``k1`` and ``b``
    asked for: scores are exact, and a hit is missed only if Tantivy ranks it below ``candidates``.
    Ties are ordered by passage id.

    Args:
        corpus: The passages, or None to read them from ``index``.
        index: Folder of the index: opened if it is there, else built and written. Without one, the
            index is built in memory.
        k1: Saturation of term frequency, at least 0.
        b: Share of length normalisation, 0 to 1.
        candidates: Passages that Tantivy hands over for each query; k if that is more.
        threads: Threads for building and for batches of queries.
        **analysis: Arguments of ``Analyser``.

    Raises:
        EngineError: an impossible option, an empty corpus, or an index that is absent, damaged, or
            built from other passages or by another analysis.
    """

    needs_task = False
    in_memory = False

    def __init__(
        self,
        corpus: Corpus | None,
        *,
        index: str | Path | None = None,
        k1: float = 0.9,
        b: float = 0.4,
        candidates: int = 100,
        threads: int = 1,
        **analysis: Any,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise EngineError(f"BM25 needs k1 ≥ 0 and 0 ≤ b ≤ 1, got k1={k1}, b={b}")
        if candidates < 1 or threads < 1:
            raise EngineError(
                f"candidates and threads must be at least 1, got {candidates} and {threads}"
            )
        self.analyser = Analyser(**analysis)
        self.corpus, self.k1, self.b = corpus, k1, b
        self.candidates, self.threads = candidates, threads
        if corpus is not None and not len(corpus):
            raise EngineError(f"corpus {corpus.name!r} is empty: there is nothing to search")
        if index is None:
            if corpus is None:
                raise EngineError("an engine without a corpus needs the folder of its index")
            self._index = _new_index(None)
            self._about, self._forward, self._starts = _fill(
                self._index, corpus, self.analyser, threads, None
            )
        else:
            folder = Path(index)
            if corpus is not None and not (folder / _ABOUT).exists():
                build(folder, corpus, self.analyser, threads=threads)
            self._about = _read_about(folder, self.analyser)
            if corpus is not None and self._about["digest"] != corpus.digest:
                raise EngineError(
                    f"the index in {folder} was not built from corpus {corpus.name!r} as it is now "
                    f"({self._about['digest']}, not {corpus.digest}): build it in another folder"
                )
            self._index, self._forward, self._starts = _open(folder, self._about)
        self._searcher = self._index.searcher()
        self._mean_length = self._about["terms"] / max(1, self._about["passages"])
        settings = f"{self.analyser.settings} {k1} {b} {candidates}"
        self.fingerprint = (
            f"tantivy:{self._about['digest']}:{hashlib.sha256(settings.encode()).hexdigest()[:16]}"
        )

    @classmethod
    def open(cls, folder: str | Path, **options: Any) -> Self:
        """Open the index in ``folder``, whose passages stay on disk."""
        return cls(None, index=folder, **options)

    def __len__(self) -> int:
        return int(self._about["passages"])

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: the engine is pure in them."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order; each may have its own k."""
        if self.threads == 1 or len(batch) < 2:
            return [self._rank(query.text, query.k) for query in batch]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(lambda query: self._rank(query.text, query.k), batch))

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """Rank passages for each text; ``k ≤ 0`` gives no hits."""
        return [self._rank(text, k) for text in texts]

    def _rank(self, text: str, k: int) -> Ranking:
        """Find candidates, score each exactly, and keep the best k."""
        library = _library()
        wanted = Counter(self.analyser.terms(text)) if k > 0 else Counter()
        passages = self._about["passages"]
        idf: dict[str, float] = {}
        clauses = []
        for term, count in wanted.items():
            word = _word(self.analyser, term)
            there = self._searcher.doc_freq("terms", word)
            if there:
                idf[term] = math.log(1 + (passages - there + 0.5) / (there + 0.5))
                clause = library.Query.term_query(self._index.schema, "terms", word, "freq")
                if count > 1:
                    clause = library.Query.boost_query(clause, float(count))
                clauses.append((library.Occur.Should, clause))
        if not clauses:
            return ()
        asked = clauses[0][1] if len(clauses) == 1 else library.Query.boolean_query(clauses)
        limit = min(max(k, self.candidates), passages)
        found = self._searcher.search(asked, limit=limit, count=False).hits
        addresses = [address for _, address in found]
        places = np.array(self._searcher.fast_field_values("place", addresses), np.int64)
        scores = self._score(places, {term: wanted[term] for term in idf}, idf)
        # Scores below the k-th are out, ties with it stay until ids have decided.
        least = np.partition(scores, len(scores) - k)[len(scores) - k] if k < len(scores) else 0.0
        hits = [
            Hit(self._passage(int(places[i]), addresses[i]), float(scores[i]))
            for i in np.flatnonzero(scores >= least).tolist()
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.passage.id))
        return tuple(hits[:k])

    def _passage(self, place: int, address: Any) -> Passage:
        """Read a passage: from the corpus, else from the index."""
        if self.corpus is not None:
            return self.corpus[place]
        return Passage(*json.loads(self._searcher.doc(address).get_first("passage")))

    def _score(
        self, places: NDArray[np.int64], wanted: Mapping[str, int], idf: Mapping[str, float]
    ) -> NDArray[np.float32]:
        """Score passages by Lucene's BM25; single precision, summed in the query's order."""
        first = self._starts[places]
        lengths = self._starts[places + 1] - first
        edges = np.cumsum(lengths) - lengths
        numbers = self._forward[np.repeat(first - edges, lengths) + np.arange(lengths.sum())]
        norm = self.k1 * (1 - self.b + self.b * lengths / self._mean_length)
        total = np.zeros(len(places), np.float32)
        for term, repeated in wanted.items():
            times = np.add.reduceat(numbers == _number(term), edges, dtype=np.int64)
            total += np.float32(repeated) * (idf[term] * times / (times + norm)).astype(np.float32)
        return total


def build(
    folder: str | Path, passages: Iterable[Passage], analyser: Analyser, *, threads: int = 1
) -> None:
    """Index a stream of passages into a folder, which appears whole or not at all.

    The stream is read once and never held in memory; its ids must differ.

    Raises:
        EngineError: the folder is there already, or the stream is empty.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise EngineError(f"{folder} holds files already; choose an empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        about, *_ = _fill(_new_index(staging), passages, analyser, threads, staging)
        if not about["passages"]:
            raise EngineError("there is no passage to index")
        (staging / _ABOUT).write_text(json.dumps(about), encoding="ascii")
        os.replace(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # gone already unless something failed


def _fill(
    index: Any,
    passages: Iterable[Passage],
    analyser: Analyser,
    threads: int,
    folder: Path | None,
) -> tuple[dict[str, Any], NDArray[np.uint32], NDArray[np.int64]]:
    """Write every passage; return what tells the index from others, term numbers and starts.

    Term numbers are those of all passages in a row, passage i's at ``starts[i]:starts[i + 1]``.
    With a folder, passages and term numbers are written there, and the numbers returned are empty.
    """
    library = _library()
    writer = index.writer(heap_size=(_LEAST if folder is None else _HEAP) * threads,
                          num_threads=threads)  # fmt: skip
    digest = hashlib.sha256()
    numbers, starts = array("I"), array("q", [0])
    known = _Numbers()
    plain = analyser.pattern == WORD
    sink = None if folder is None else (folder / _FORWARD).open("wb")
    try:
        for place, passage in enumerate(passages):
            terms = analyser.terms(_text(passage))
            document = library.Document()
            words = terms if plain else [_word(analyser, term) for term in terms]
            document.add_text("terms", " ".join(words))
            document.add_unsigned("place", place)
            numbers.extend(map(known.__getitem__, terms))
            starts.append(starts[-1] + len(terms))
            if sink is not None:
                document.add_bytes("passage", json.dumps(passage).encode("ascii"))
                if len(numbers) > _BUFFER:
                    numbers.tofile(sink)
                    del numbers[:]
            writer.add_document(document)
            if not isinstance(passages, Corpus):
                for piece in passage:
                    digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
        if sink is not None:
            numbers.tofile(sink)
            del numbers[:]
    finally:
        if sink is not None:
            sink.close()
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    about = {
        "format": _FORMAT,
        "analysis": analyser.settings,
        "digest": passages.digest if isinstance(passages, Corpus) else digest.hexdigest()[:16],
        "passages": len(starts) - 1,
        "terms": starts[-1],
    }
    if folder is not None:
        np.save(folder / _STARTS, np.asarray(starts, np.int64), allow_pickle=False)
    return about, np.asarray(numbers, np.uint32), np.asarray(starts, np.int64)


def _new_index(folder: Path | None) -> Any:
    library = _library()
    schema = library.SchemaBuilder()
    schema.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    schema.add_unsigned_field("place", fast=True)
    schema.add_bytes_field("passage", stored=True)
    index = library.Index(schema.build(), path=None if folder is None else str(folder))
    split = library.TextAnalyzerBuilder(library.Tokenizer.whitespace()).build()
    index.register_tokenizer("terms", split)
    return index


def _open(
    folder: Path, about: Mapping[str, Any]
) -> tuple[Any, NDArray[np.uint32], NDArray[np.int64]]:
    """Open the index in a folder and map its term numbers and their starts."""
    try:
        index = _library().Index.open(str(folder))
        starts = np.load(folder / _STARTS, mmap_mode="r", allow_pickle=False)
        if starts.shape != (about["passages"] + 1,) or starts[-1] != about["terms"]:
            raise ValueError(f"{_STARTS} is not of this index")
        size = about["terms"]
        forward: Any = np.zeros(0, np.uint32)
        if size:
            forward = np.memmap(folder / _FORWARD, np.uint32, mode="r", shape=(size,))
    except (ValueError, OSError) as error:
        raise EngineError(f"the index in {folder} is damaged ({error}): build it again") from error
    return index, forward, starts


class _Numbers(dict[str, int]):
    """Term → number, remembered for the terms seen first."""

    def __missing__(self, term: str) -> int:
        number = _number(term)
        if len(self) < 1 << 20:
            self[term] = number
        return number


def _number(term: str) -> int:
    """Return 32 bits for a term; two terms of a language share them about once in four billion."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little"
    )


def _read_about(folder: Path, analyser: Analyser) -> dict[str, Any]:
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="ascii"))
        if about["format"] != _FORMAT or about["passages"] < 1 or about["terms"] < 0:
            raise ValueError("another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"no readable Tantivy index in {folder}: {error}") from error
    if about["analysis"] != analyser.settings:
        raise EngineError(
            f"the index in {folder} was built with the analysis {about['analysis']}, not "
            f"{analyser.settings}: give these options, or build it again"
        )
    return dict(about)


def _word(analyser: Analyser, term: str) -> str:
    """Spell a term so that it holds no white space, by which Tantivy is told to split."""
    return term if analyser.pattern == WORD else quote(term, safe="", errors="surrogatepass")


def _text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


def _library() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise MissingExtraError("the engine 'tantivy'", "tantivy") from error
    return tantivy


def make(corpus: Corpus, world: World | None, **options: Any) -> TantivyEngine:
    """Build for the registry."""
    return TantivyEngine(corpus, **options)
