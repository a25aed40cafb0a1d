"""BM25 over an index on disk: exact, in shards, without the passages in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import value_digest
from ...types import Hit, Ranking
from ...worlds.world import World
from .._plain import Postings, QueryTerms, Weighting
from ..analysis import REVISION, TermIds
from ..bm25 import Lexical, analyser_of
from .build import build
from .files import StoredCorpus, is_index, key_of, open_arrays, read_about


class DiskBM25Engine(Lexical):
    """Lexical search with passages and index on disk: the rankings of ``BM25Engine``, bit for bit.

    Rankings hold at most k hits with positive scores, never increasing; ties are in the order in
    which passages were indexed, by id if they were a corpus. Opening reads the index once, two to
    three seconds per gigabyte, to see that it is what was built; each passage is compared with its
    digest when it is read.

    Args:
        index: Folder that :func:`build` wrote.
        corpus: The passages, where they are in memory anyway; else they are read from the folder.
        threads: Threads among which a batch's queries are divided.

    Raises:
        EngineError: the index is absent or altered, or was built from another corpus.
    """

    in_memory = False

    def __init__(
        self, index: str | Path, corpus: Corpus | None = None, *, threads: int = 1
    ) -> None:
        if not isinstance(threads, int) or threads < 1:
            raise EngineError(f"threads is a whole number from 1, got {threads!r}")
        folder = Path(index)
        about = read_about(folder)
        if corpus is not None and about["digest"] != corpus.digest:
            raise EngineError(
                f"the index in {folder} was not built from corpus {corpus.name!r} as it is now "
                f"(index {about['digest']}, corpus {corpus.digest}): build it in another folder"
            )
        arrays = open_arrays(folder, about)
        self.settings: dict[str, Any] = about["settings"]
        self.threads = threads
        try:
            analysis = {k: v for k, v in self.settings.items() if k not in ("k1", "b")}
            self.analyser = analyser_of(**analysis)
        except TypeError as error:
            raise EngineError(f"no readable BM25 index in {folder}: {error}") from error
        self.passages = corpus if corpus is not None else (
            StoredCorpus(folder, arrays, about["digest"])
        )  # fmt: skip
        self._size, self._shard = len(self.passages), int(about["shard"])
        self._ids = TermIds(self.analyser, _Vocabulary(arrays["words"], arrays["numbers"]))
        weighting = Weighting(arrays["terms"], arrays["idf"], arrays["norms"])
        columns = map(arrays.__getitem__, Postings._fields[:-1])
        shards = arrays["most"], arrays["shards"], arrays["postings"]
        self._arrays = *shards, Postings._make([*columns, weighting])
        self._backwards = False
        self._scratch = []
        revision = REVISION if self.settings.get("unicode") else None
        told = value_digest([self.settings, revision])
        self.fingerprint = f"bm25_disk:{about['digest']}:{told}"

    def __len__(self) -> int:
        return len(self.passages)

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        docs, scores = self.search_positions(texts, k)
        # A batch begins where the one before it ended: of an index that is larger than the memory,
        # these are the shards that are still in it.
        self._backwards = not self._backwards
        read = self.passages
        if isinstance(read, StoredCorpus):
            read.fetch(np.unique(docs[docs >= 0]).tolist())
        rankings = [
            tuple([Hit(read[doc], score) for doc, score in zip(*row, strict=True) if doc >= 0])
            for row in zip(docs.tolist(), scores.tolist(), strict=True)
        ]
        if isinstance(read, StoredCorpus):
            read.release()
        return rankings

    def _fill(self, batch: QueryTerms, docs: NDArray[np.int32], best: NDArray[np.float32]) -> None:
        from ._kernel import best_of_shards

        kernel: Any = best_of_shards
        room = self._room(self._shard, docs, best)
        kernel(batch, *self._arrays, self._shard, self._backwards, room)
        self._scratch.append(room[:2])


class _Vocabulary(Mapping[str, int]):
    """Term → number, by the digests of terms: millions of them need no memory."""

    def __init__(self, words: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        self._words, self._numbers = words, numbers

    def __getitem__(self, term: str) -> int:
        key = np.uint64(key_of("term", term))
        at = int(np.searchsorted(self._words, key))
        if at == len(self._words) or self._words[at] != key:
            raise KeyError(term)
        return int(self._numbers[at])

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Any:
        raise TypeError("terms are kept as digests: they can be looked up, not listed")


def make(
    corpus: Corpus,
    world: World | None,
    *,
    index: str | None = None,
    threads: int = 1,
    **options: Any,
) -> DiskBM25Engine:
    """Build for the registry; ``index``: a folder that :func:`build` wrote, or that it is to write
    from the corpus, with ``options``."""
    if index is None:
        raise EngineError(
            "engine 'bm25_disk' needs a folder for its index: {'name': 'bm25_disk', 'index': "
            "'FOLDER'}; in memory, 'bm25' gives the same rankings"
        )
    signature(build).bind(index, corpus, **options)  # a TypeError names what build does not take
    if not is_index(index):
        try:
            build(index, corpus, **options)
        except EngineError:
            if not is_index(index):  # else another process has built it meanwhile
                raise
    made = DiskBM25Engine(index, corpus, threads=threads)
    if isinstance(words := options.get("stopwords"), Iterable) and not isinstance(words, str):
        options["stopwords"] = sorted(words)
    if options.get("unicode") is None:  # chosen by the language, as is a stemmer
        options.pop("unicode", None)
        if options.get("stemmer") == "porter":
            del options["stemmer"]
    wrong = {k: v for k, v in options.items() if made.settings.get(k, v) != v}
    if wrong:
        raise EngineError(
            f"the index in {index} was built with {made.settings}, not with {wrong}: leave these "
            "options out, or build it in another folder"
        )
    return made
