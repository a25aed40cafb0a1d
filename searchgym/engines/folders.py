"""A folder of documents with an index of it, both kept in the user's cache and brought up to date.

Of a changed folder only the changed files are read, and only their passages analysed or encoded
(``engines.passage_cache``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..corpora.documents import DocumentCorpus, load_documents
from ..corpora.documents.folder import MAX_FILE_BYTES, WORDS
from ..corpora.documents.readers import RememberedFiles
from ..errors import EngineError
from ..objects import check_whole
from ..storage.cache import cache_folder, used
from ..storage.files import LOCK, value_digest, waiting_lock
from ..types import SearchEngine
from .passage_cache import TermCache, VectorCache
from .registry import build_engine


class FolderIndex:
    """Documents and an engine over them.

    Args:
        source: A folder of documents, or one document.
        engine: Spec as for environments; of "bm25" and "dense" the index is kept.
        words: Words of a passage.
        cache: Folder to keep things in; default: one in the user's cache, by the folder's path and
            the options.

    Raises:
        DataError: nothing in the folder can be read.
        EngineError: see ``build_engine``.
    """

    corpus: DocumentCorpus
    engine: SearchEngine

    def __init__(
        self,
        source: str | Path,
        engine: str | Mapping[str, Any] = "bm25",
        *,
        words: int = WORDS,
        cache: Path | None = None,
    ) -> None:
        self.source = Path(source)
        self._spec = {"name": engine} if isinstance(engine, str) else dict(engine)
        if cache is None:
            cache = cache_folder("folders") / value_digest([str(self.source.resolve()), words])
        cache.mkdir(parents=True, exist_ok=True)
        self._cache, self._words = cache, words
        self._files = RememberedFiles(
            cache / "files.json", words=words, max_file_bytes=MAX_FILE_BYTES
        )
        self._terms: TermCache | None = None
        self._vectors: VectorCache | None = None
        self._locked = partial(waiting_lock, cache / LOCK)  # processes that share the folder
        with self._locked():
            self.corpus = self._read()
            self.engine = self._build()
        used(cache)

    def refresh(self) -> bool:
        """Look at the folder again. Return whether it changed; ``corpus`` and ``engine`` are new
        objects then, and the old ones stay as they were."""
        with self._locked():
            corpus = self._read()
            if corpus.digest == self.corpus.digest:
                return False
            before = self.corpus
            self.corpus = corpus
            try:
                self.engine = self._build()
            except BaseException:  # Ctrl-C, too: corpus and engine belong together
                self.corpus = before
                raise
        return True

    def _read(self) -> DocumentCorpus:
        self._files.begin()
        corpus = load_documents(self.source, words=self._words, parse_file=self._files.parse)
        self._files.end()
        return corpus

    def _build(self) -> SearchEngine:
        name, options = self._spec.get("name"), {k: v for k, v in self._spec.items() if k != "name"}
        if name == "bm25" and "index" not in options:
            return self._bm25(options)
        if name == "dense" and not {"index", "cache"} & options.keys():
            self._vectors = self._vectors or VectorCache.load(self._cache / "vectors.npz")
            made = build_engine({**self._spec, "kept": self._vectors}, self.corpus)
            if self._vectors.computed:
                self._vectors.save(self._cache / "vectors.npz")
            return made
        return build_engine(self._spec, self.corpus)

    def _bm25(self, options: Mapping[str, Any]) -> SearchEngine:
        from .bm25 import BM25Engine

        told = json.dumps(options, sort_keys=True, default=str)
        folder = self._cache / f"bm25-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        threads = options.get("threads", 1)
        check_whole("threads of the engine", threads, 1, error=EngineError)
        if (folder / "index.json").is_file():
            try:
                return BM25Engine.load(folder, self.corpus, threads=threads)
            except EngineError:
                pass  # of the folder as it was: built again below
        self._terms = self._terms or TermCache.load(self._cache / "terms.npz")
        made = build_engine({**self._spec, "kept": self._terms}, self.corpus)
        if self._terms.computed:
            self._terms.save(self._cache / "terms.npz")
        save = getattr(made, "save", None)
        if save is not None:
            save(folder)
        return made
