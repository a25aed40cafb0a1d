"""``Searcher``: a corpus and an engine for programs that only search, such as other retrievers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..errors import EngineError
from ..seeding import derive
from ..types import CallContext, Failure, Hit, Query, SearchEngine
from .registry import build_engine


class Searcher:
    """Searches a corpus by an engine, without episodes.

    Args:
        corpus: A ``Corpus``, a folder or file of yours, or the name of a real set.
        engine: Spec as for environments: a name, a table with ``name``, or an engine.
        data_dir: Folder of real sets.

    Raises:
        EngineError: the engine plays by the question's task (a simulated one), which a bare search
            does not have.
        TypeError: ``corpus`` is none of these.
    """

    def __init__(
        self,
        corpus: Corpus | str | os.PathLike[str],
        engine: str | Mapping[str, Any] | SearchEngine = "bm25",
        *,
        data_dir: str | None = None,
    ) -> None:
        if isinstance(corpus, str | os.PathLike):
            corpus = os.fspath(corpus)
            from ..corpora.corpus import is_files
            from ..corpora.data import load_set
            from ..corpora.load import load_corpus

            own = is_files(corpus)
            corpus = load_corpus(corpus) if own else load_set(corpus, data_dir=data_dir)[0]
        if not isinstance(corpus, Corpus):
            raise TypeError(
                f"corpus is a Corpus, a folder or file, or the name of a real set, got "
                f"{corpus!r:.80}; passages of a program: Corpus('name', [Passage(...), ...])"
            )
        self.corpus = corpus
        self.engine: SearchEngine = build_engine(engine, corpus)
        if self.engine.needs_task:
            raise EngineError(
                f"the engine {self.engine.fingerprint!r} needs the task whose question is asked; "
                "use it in an environment"
            )

    def search(self, texts: Sequence[str], k: int = 3) -> list[tuple[Hit, ...]]:
        """Return at most ``k`` hits for each text, best first; all texts are one batch.

        Raises:
            EngineError: the engine failed on a text.
        """
        if isinstance(texts, str):
            raise TypeError(f"search takes a list of texts: write search([{texts!r}])")
        batch = [
            Query(text, k, CallContext(derive(0, "search", text), f"search.{place}", {}))
            for place, text in enumerate(texts)
        ]
        rankings = []
        for text, ranking in zip(texts, run_batch(self.engine, batch), strict=True):
            if isinstance(ranking, Failure):
                raise EngineError(f"searching {text[:80]!r} failed: {ranking.message}")
            rankings.append(tuple(ranking))
        return rankings
