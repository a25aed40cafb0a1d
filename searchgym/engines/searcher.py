"""``Searcher``: a corpus and an engine for programs that only search, such as other retrievers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..errors import DataError, EngineError, unknown
from ..objects import bare_hint, check_whole
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
        DataError: there is no such set, or it cannot be read.
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
            corpus = _loaded(corpus, data_dir)
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
            EngineError: ``k`` is no whole number of at least 1, or the engine failed on a text.
            TypeError: ``texts`` is no list of texts.
        """
        if isinstance(texts, str):
            raise TypeError(f"search takes a list of texts: write search([{texts!r}])")
        if not isinstance(texts, Iterable):
            raise TypeError(f"search takes a list of texts, got {texts!r:.80}")
        texts = list(texts)
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"search takes a list of texts, got one that holds {text!r:.80}")
        check_whole("k", k, 1, error=EngineError)
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


def _loaded(source: str | os.PathLike[str], data_dir: str | None) -> Corpus:
    """The passages of a file, of a folder named by a path, or of a real set."""
    from ..corpora.corpus import is_files
    from ..corpora.data import load_set, real_sets
    from ..corpora.load import load_corpus

    name, known = os.fspath(source), real_sets()
    if is_files(name):
        return load_corpus(name)
    if name not in known and (hint := bare_hint(name)):
        if not isinstance(source, str):  # a path of one step loses its "./"
            hint += ", as a text"
        raise DataError(unknown("real set", name, known) + hint)
    return load_set(name, data_dir=data_dir)[0]
