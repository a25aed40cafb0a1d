"""BM25 over any corpus: bm25s's sparse score matrix, searched by a compiled kernel."""

from __future__ import annotations

import hashlib
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..batching import text_and_k
from ..corpora.corpus import Corpus
from ..errors import EngineError, check_known
from ..objects import is_number
from ..types import Hit, Passage, Query, Ranking
from ..utils import collecting_later
from ..worlds.world import World
from ._plain import MOST, NONE, QueryTerms, Room
from .analysis import REVISION, WORD, Analyser, TermIds
from .bm25_index import (
    ABOUT,
    FIELDS,
    METHODS,
    BM25Index,
    build_index,
    kernels,
    load_index,
    read_about,
    save_index,
)

if TYPE_CHECKING:
    from .passage_cache import TermCache

SAMPLE = 200
"""Passages by which a corpus's language is told."""
_LONG_QUERY = 256
_make_hit = partial(tuple.__new__, Hit)
_MANY = 10_000
_FEW = 100
"""Hits that are made before Python's garbage collector would look at them once."""


class Lexical(ABC):
    """Base of BM25 engines: batches of queries become term numbers, which :meth:`_fill` ranks."""

    needs_task = False
    threads: int
    """Threads among which a large batch is divided."""
    _size: int
    """Number of passages."""
    _ids: TermIds
    _scratch: list[tuple[NDArray[np.float32], NDArray[np.int32]]]

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: the engine is pure in them."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order; each may have its own k."""
        if not batch:
            return []
        first = batch[0].k
        if all(query.k == first for query in batch):
            return self.search([query.text for query in batch], first)
        rankings: list[Ranking] = [()] * len(batch)
        for k in sorted({query.k for query in batch}):
            rows = [i for i, query in enumerate(batch) if query.k == k]
            for i, ranking in zip(rows, self.search([batch[i].text for i in rows], k), strict=True):
                rankings[i] = ranking
        return rankings

    @abstractmethod
    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""

    def search_positions(
        self, texts: Sequence[str], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Positions and scores of the best hits, both of shape (len(texts), min(k, passages)).

        Places beyond a query's hits hold position −1 and score 0.
        """
        k = max(0, min(k, self._size))
        docs = np.full((len(texts), k), -1, dtype=np.int32)
        scores = np.zeros((len(texts), k), dtype=np.float32)
        if not k or not len(texts):
            return docs, scores
        batch = flattened([self._ids.of(text) for text in texts])
        if self.threads == 1 or len(texts) < 4 * self.threads:
            self._fill(batch, docs, scores)
        else:
            in_threads(self.threads, self._fill, batch, docs, scores)
        return docs, scores

    def _room(self, size: int, docs: NDArray[np.int32], best: NDArray[np.float32]) -> Room:
        """Room for a kernel over ``size`` passages, of arrays that were used before, if any."""
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = np.zeros(size, np.float32), np.zeros(size + 1, np.int32)
        return Room(*scratch, docs, best)

    @abstractmethod
    def _fill(self, batch: QueryTerms, docs: NDArray[np.int32], best: NDArray[np.float32]) -> None:
        """Write the best hits of queries; ``docs`` (Q, k) holds −1, ``best`` (Q, k) 0."""


class BM25Engine(Lexical):
    """Lexical search (Robertson and Zaragoza, 2009) with exact ties.

    Rankings hold at most k hits with positive scores, never increasing, ties by passage id; the
    same (text, k) always gives the same ranking, alone or in a batch. ``method`` is one of
    "lucene", "robertson", "atire" (bm25s's variants; Kamphuis et al., 2020), "bm25+" and "okapi"
    (the formula of the package rank_bm25). ``threads`` splits large batches. ``unicode``: analyse
    words as ``languages.UnicodeAnalyser`` does (folded accents, pairs of Chinese, Japanese and
    Korean characters, a stemmer for every script); by default where the corpus is not in English,
    with its language's stemmer, and for documents of your own. ``kept``: terms of passages that an
    earlier engine has analysed; those of this corpus replace them. Raises ``EngineError`` for
    unknown names or an empty corpus.
    """

    in_memory = True
    """Answers without I/O and may be timed by trying: servers need not hand it to a thread."""

    def __init__(
        self,
        corpus: Corpus,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        stemmer: str | None = "porter",
        stopwords: str | Iterable[str] | None = "lucene",
        method: str = "lucene",
        threads: int = 1,
        fields: Sequence[str] = ("title", "text"),
        pattern: str = WORD,
        lowercase: bool = True,
        unicode: bool | None = None,
        kept: TermCache | None = None,
        _index: BM25Index | None = None,
    ) -> None:
        check_known("BM25 method", METHODS, method, error=EngineError)
        if not fields or any(f not in FIELDS for f in fields):
            raise EngineError(f"fields must name some of {', '.join(FIELDS)}, got {fields!r}")
        if not (is_number(k1) and k1 >= 0 and is_number(b) and 0 <= b <= 1):
            raise EngineError(f"BM25 needs k1 ≥ 0 and 0 ≤ b ≤ 1, got k1={k1!r}, b={b!r}")
        if not isinstance(threads, int) or threads < 1:
            raise EngineError(f"threads is a whole number from 1, got {threads!r}")
        if not len(corpus):
            raise EngineError(f"corpus {corpus.name!r} is empty: there is nothing to search")
        self.corpus, self._size = corpus, len(corpus)
        self.threads = threads
        usual = pattern == WORD and lowercase
        if unicode and not usual:
            raise EngineError("unicode=True has a pattern and a case of its own: leave those out")
        if unicode is None:
            told = corpus.unicode if usual else False
            unicode, stemmer = choose_analysis(sample(corpus), stemmer, told)
        self.analyser = analyser_of(unicode, stemmer, stopwords, pattern, lowercase)
        self._settings: dict[str, Any] = {
            "k1": float(k1),
            "b": float(b),
            "stemmer": stemmer,
            "stopwords": stopwords if isinstance(stopwords, str) else sorted(stopwords or ()),
            "method": method,
            "fields": list(fields),
            "pattern": pattern,
            "lowercase": lowercase,
            **({"unicode": True} if unicode else {}),
        }
        self.fingerprint = _fingerprint(corpus.digest, self._settings)
        self._index = _index or build_index(corpus, self.analyser, self._settings, kept)
        self._ids = TermIds(self.analyser, self._index.vocabulary)
        self._scratch = []
        self._passages = np.empty(len(corpus), object)
        self._passages[:] = list(corpus)

    # --- plain calls --------------------------------------------------------------------------
    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        docs, scores = self.search_positions(texts, k)
        if docs.size <= _FEW:
            get = self._passages.item
            return [
                tuple([_make_hit((get(at), s)) for at, s in zip(row, best, strict=True) if at >= 0])
                for row, best in zip(docs.tolist(), scores.tolist(), strict=True)
            ]
        counts = (docs >= 0).sum(axis=1).tolist()
        total = sum(counts)
        with collecting_later(total > _MANY):
            return [
                tuple(map(tuple.__new__, repeat(Hit), zip(passages[:n], values[:n], strict=True)))
                for passages, values, n in zip(
                    self._passages[docs].tolist(), scores.tolist(), counts, strict=True
                )
            ]

    def warm_up(self) -> None:
        """Compile the kernels, or load them from numba's disk cache, before the first query."""
        self.search_positions([""], 1)
        self.search_positions([""], MOST + 1)

    def _fill(self, batch: QueryTerms, docs: NDArray[np.int32], best: NDArray[np.float32]) -> None:
        kernel, postings = kernels(), self._index.postings
        room = self._room(len(self._passages), docs, best)
        if docs.shape[1] <= MOST:
            kernel.best_k(batch, NONE, postings, room)
        else:
            kernel.best_of_all(batch, postings, room)
        self._scratch.append(room[:2])

    # --- disk ---------------------------------------------------------------------------------
    def save(self, directory: str | Path) -> None:
        """Write the index so that it appears whole or not at all, replacing an older one. Others
        may save to the folder and load from it meanwhile."""
        meta = {"fingerprint": self.fingerprint, "settings": self._settings}
        save_index(Path(directory), self._index, meta)

    @classmethod
    def load(cls, directory: str | Path, corpus: Corpus, *, threads: int = 1) -> Self:
        """Memory-map a saved index.

        Every file of it is read once and checked, two to three seconds per gigabyte (see
        ``bm25_index.load_index``).

        Raises:
            EngineError: it is absent or altered, or was built from another corpus.
        """
        from ..storage.files import settled

        folder = Path(directory)
        return settled(folder / ABOUT, lambda: cls._load(folder, corpus, threads), EngineError)

    @classmethod
    def _load(cls, directory: Path, corpus: Corpus, threads: int) -> Self:
        about = read_about(directory)
        try:
            settings, built = dict(about["settings"]), about["fingerprint"]
            expected = _fingerprint(corpus.digest, settings)
            if built != expected:
                raise EngineError(
                    f"the index in {directory} was not built from corpus {corpus.name!r} as it is "
                    f"now (index {built}, corpus {expected}): build it again and save it"
                )
            index = load_index(directory, about["sha256"], len(corpus))
            return cls(corpus, threads=threads, _index=index, **{"unicode": False, **settings})
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"the BM25 index in {directory} is damaged ({error}): build it again"
            ) from error


def analyser_of(
    unicode: bool,
    stemmer: str | None,
    stopwords: str | Iterable[str] | None,
    pattern: str = WORD,
    lowercase: bool = True,
) -> Analyser:
    """The analyser that settings of the engine mean."""
    if unicode:
        from .languages import UnicodeAnalyser

        return UnicodeAnalyser(stemmer=stemmer, stopwords=stopwords)
    return Analyser(lowercase=lowercase, pattern=pattern, stemmer=stemmer, stopwords=stopwords)


def sample(passages: Sequence[Passage]) -> list[str]:
    """Texts by which a corpus's language is told: of passages all over it."""
    step = max(1, len(passages) // SAMPLE)
    some = (passages[i] for i in range(0, len(passages), step))
    return [passage.text or passage.title for passage in some]


def choose_analysis(
    texts: list[str], stemmer: str | None, unicode: bool | None
) -> tuple[bool, str | None]:
    """Return whether a corpus with these texts calls for the analyser of other languages, and the
    stemmer. ``unicode``: whether it does, if that is known."""
    if unicode is False:
        return False, stemmer
    from .languages import choose_stemmer

    chosen = choose_stemmer(texts, always=bool(unicode))
    if chosen is None:
        return False, stemmer
    return True, chosen if stemmer == "porter" else stemmer


def _fingerprint(digest: str, settings: Mapping[str, Any]) -> str:
    shown = json.dumps(settings, sort_keys=True)
    if settings.get("unicode"):
        shown += str(REVISION)
    return f"bm25:{digest}:{hashlib.sha256(shown.encode()).hexdigest()[:16]}"


def flattened(rows: list[list[int]]) -> QueryTerms:
    """Term numbers of queries in a row."""
    weights: NDArray[np.float32] | None = None
    if max(map(len, rows)) > _LONG_QUERY:
        rows, weights = _weighted(rows)
    starts = np.array([0, *itertools.accumulate(map(len, rows))], dtype=np.int64)
    terms = np.array(list(itertools.chain.from_iterable(rows)), dtype=np.int32)
    if weights is None:
        weights = np.ones(len(terms), dtype=np.float32)
    return QueryTerms(terms, weights, starts)


def in_threads(
    threads: int,
    work: Callable[[QueryTerms, NDArray[np.int32], NDArray[np.float32]], object],
    batch: QueryTerms,
    docs: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> None:
    """Do the work of some queries in each thread: ``work`` gets their places in the answers."""
    edges = np.linspace(0, len(docs), threads + 1).astype(int).tolist()

    def some(lo: int, hi: int) -> None:
        starts = batch.starts[lo : hi + 1]
        own = slice(starts[0], starts[-1])
        part = QueryTerms(batch.terms[own], batch.weights[own], starts - starts[0])
        work(part, docs[lo:hi], scores[lo:hi])

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(some, edges[:-1], edges[1:]):
            pass


def _weighted(rows: list[list[int]]) -> tuple[list[list[int]], NDArray[np.float32]]:
    """Long queries with each term once and its count, so that a megabyte costs one pass."""
    short: list[list[int]] = []
    weights: list[float] = []
    for row in rows:
        if len(row) <= _LONG_QUERY:
            short.append(row)
            weights += [1.0] * len(row)
            continue
        counts: dict[int, int] = {}
        for term in row:
            counts[term] = counts.get(term, 0) + 1
        short.append(list(counts))
        weights += map(float, counts.values())
    return short, np.array(weights, dtype=np.float32)


def make(
    corpus: Corpus, world: World | None, index: str | None = None, **options: Any
) -> BM25Engine:
    """Build for the registry; ``index``: a folder that ``BM25Engine.save`` wrote (mapped)."""
    if index is not None:
        return BM25Engine.load(index, corpus, **options)
    return BM25Engine(corpus, **options)
