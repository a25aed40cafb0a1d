"""A simulated search engine without a language model: rules over the corpus, for fast tests.

It keeps the interface of the ``simulated`` engine (useful or noisy by the same draw, gold only
here) and none of its variety: useful documents are sentences of the gold passages, noisy ones are
other passages, of entities of the same type where the world knows types, with every sentence that
states the answer removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ...corpora.corpus import Corpus, GeneratedCorpus
from ...errors import EngineError
from ...seeding import derive, stream
from ...types import Failure, PageSource, Passage, Query, Ranking, Task
from ...worlds.world import World
from .engine import checked_noise, is_noisy, ranked
from .parse import Document
from .shelf import Shelf, SimulatedPages
from .text import excerpt, mentions, sentences

_TRIES = 20
"""Other passages looked at per noisy document wanted."""


class RulesEngine:
    """Pure in (query's key, parameters, task, k).

    ``noise`` as in ``simulated``; ``words``: length of a document. A query that belongs to no task
    is a ``Failure("rejected")``: without a task nothing is gold. ``EngineError`` for bad settings.
    """

    needs_task = True
    axes = frozenset({"noise"})

    def __init__(
        self, corpus: Corpus, world: World | None = None, *, noise: float = 0.0, words: int = 30
    ) -> None:
        if words < 1:
            raise EngineError(f"words must be ≥ 1, got {words}")
        self.corpus, self.noise, self.words = corpus, checked_noise(noise), words
        self.world = world if isinstance(corpus, GeneratedCorpus) else None
        self.fingerprint = f"simulated_rules:{corpus.digest}:{noise}:{words}"
        self._shelf = Shelf()

    def cache_key(self, request: Query, /) -> None:
        """Never shared: documents are drawn per call."""
        return None

    def pages(self, default: PageSource) -> PageSource:
        """Pages of the documents shown so far; other addresses are ``default``'s."""
        return SimulatedPages(self._shelf, default, self.fingerprint)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        """Documents per query, in order."""
        return [self._one(query) for query in batch]

    def _one(self, query: Query) -> Ranking | Failure:
        if query.k < 1 or not query.text.strip():
            return ()
        task = query.ctx.task
        if task is None:
            return Failure(
                "rejected", "simulated_rules answers searches of tasks only; pass the task", False
            )
        noisy = is_noisy(self.noise, query.ctx)
        draw = stream(query.ctx.key, "rules")
        documents = self._noisy(query, task, draw) if noisy else self._useful(query, task, draw)
        ranking = ranked(documents, noisy)
        self._shelf.put([hit.passage for hit in ranking])
        return ranking

    def _useful(self, query: Query, task: Task, draw: np.random.Generator) -> list[Document]:
        """Excerpts of the gold passages: the sentences that state the answer first."""
        gold = [
            self.corpus.passage(name) for name in reversed(task.evidence) if name in self.corpus
        ]
        found: list[tuple[bool, Passage, int, list[str]]] = []
        for passage in gold:
            parts = sentences(passage.text)
            found += [
                (not mentions(s, task.answers), passage, i, parts) for i, s in enumerate(parts)
            ]
        found.sort(key=lambda row: row[0])  # stable: later hops before earlier ones
        documents = dict.fromkeys(
            Document(p.title, excerpt(parts, i, self.words, draw, keep=task.answers))
            for _, p, i, parts in found
        )
        return list(documents)[: query.k]

    def _noisy(self, query: Query, task: Task, draw: np.random.Generator) -> list[Document]:
        """Excerpts of other passages, without the answer in any accepted form."""
        documents: dict[Document, None] = {}
        for passage in self._others(task, query):
            parts = [s for s in sentences(passage.text) if not mentions(s, task.answers)]
            if not parts:
                continue
            made = Document(
                passage.title, excerpt(parts, int(draw.integers(len(parts))), self.words, draw)
            )
            if mentions(f"{made.title} {made.text}", task.answers):
                continue  # about the answer, or it shows where two sentences meet
            documents[made] = None
            if len(documents) == query.k:
                break
        return list(documents)

    def _others(self, task: Task, query: Query) -> Iterator[Passage]:
        """Passages that are not gold, in random order: of the answering entity's type, if known."""
        pool = self._of_type(task)
        for i in range(_TRIES * query.k):
            at = int(pool[derive(query.ctx.key, "other", i) % len(pool)]) if len(pool) else -1
            if at >= 0 and (passage := self.corpus[at]).id not in task.evidence:
                yield passage

    def _of_type(self, task: Task) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Places of the pages about the type of entity that the last gold passage is about."""
        if self.world is not None and task.evidence and task.evidence[-1] in self.corpus:
            entity = self._entity_at.get(self.corpus.position(task.evidence[-1]))
            if entity is not None:
                assert isinstance(self.corpus, GeneratedCorpus)
                same = self.world.entities_of(int(self.world.type_of[entity]))
                return self.corpus.page_of[same]
        return np.arange(len(self.corpus))

    @cached_property
    def _entity_at(self) -> dict[int, int]:
        """Place of a page → entity."""
        assert isinstance(self.corpus, GeneratedCorpus)
        return {int(place): e for e, place in enumerate(self.corpus.page_of)}


def make(corpus: Corpus, world: World | None, **options: float) -> RulesEngine:
    """For the registry: ``{"name": "simulated_rules", "noise": 0.3}``."""
    return RulesEngine(corpus, world, **options)  # type: ignore[arg-type]
