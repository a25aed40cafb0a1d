"""BM25 over an index on disk: Tantivy finds candidates, Lucene's formula scores them exactly."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...batching import text_and_k
from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...types import Hit, Passage, Query, Ranking
from ...worlds.world import World
from ..analysis import Analyser
from .index import (
    ABOUT,
    analysis_of,
    build,
    fill,
    library,
    new_index,
    number_of,
    open_index,
    read_about,
    word_of,
)
from .stored import StoredCorpus, read_passage


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
            self._index = new_index(None)
            self._about, self._forward, self._starts = fill(
                self._index, corpus, self.analyser, threads, None
            )
        else:
            folder = Path(index)
            if corpus is not None and not (folder / ABOUT).exists():
                build(folder, corpus, self.analyser, threads=threads)
            self._about = read_about(folder, self.analyser)
            if corpus is not None and self._about["digest"] != corpus.digest:
                raise EngineError(
                    f"the index in {folder} was not built from corpus {corpus.name!r} as it is now "
                    f"({self._about['digest']}, not {corpus.digest}): build it in another folder"
                )
            self._index, self._forward, self._starts = open_index(folder, self._about)
            self._name = folder.resolve().name
        self._searcher = self._index.searcher()
        self._mean_length = self._about["terms"] / max(1, self._about["passages"])
        settings = f"{self.analyser.settings} {k1} {b} {candidates}"
        self.fingerprint = (
            f"tantivy:{self._about['digest']}:{hashlib.sha256(settings.encode()).hexdigest()[:16]}"
        )

    @classmethod
    def open(cls, folder: str | Path, **options: Any) -> Self:
        """Open the index in ``folder``, whose passages stay on disk, by the analysis with which it
        was built."""
        return cls(None, index=folder, **{**analysis_of(folder), **options})

    @property
    def passages(self) -> Corpus:
        """The corpus; where it stayed on disk, one that reads it from there."""
        if self.corpus is not None:
            return self.corpus
        return StoredCorpus(self._name, self._index, len(self), self._about["digest"])

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
        tantivy = library()
        wanted = Counter(self.analyser.terms(text)) if k > 0 else Counter()
        passages = self._about["passages"]
        idf: dict[str, float] = {}
        clauses = []
        for term, count in wanted.items():
            word = word_of(self.analyser, term)
            there = self._searcher.doc_freq("terms", word)
            if there:
                idf[term] = math.log(1 + (passages - there + 0.5) / (there + 0.5))
                clause = tantivy.Query.term_query(self._index.schema, "terms", word, "freq")
                if count > 1:
                    clause = tantivy.Query.boost_query(clause, float(count))
                clauses.append((tantivy.Occur.Should, clause))
        if not clauses:
            return ()
        asked = clauses[0][1] if len(clauses) == 1 else tantivy.Query.boolean_query(clauses)
        limit = min(max(k, self.candidates), passages)
        candidates = self._searcher.search(asked, limit=limit, count=False).hits
        addresses = [address for _, address in candidates]
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
        return read_passage(self._searcher, address)

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
            times = np.add.reduceat(numbers == number_of(term), edges, dtype=np.int64)
            total += np.float32(repeated) * (idf[term] * times / (times + norm)).astype(np.float32)
        return total


def make(corpus: Corpus, world: World | None, **options: Any) -> TantivyEngine:
    """Build for the registry."""
    return TantivyEngine(corpus, **options)
