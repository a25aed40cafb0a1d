"""A simulated search engine without a language model: rules over the corpus, for fast tests.

It keeps the interface of the ``simulated`` engine (useful or noisy by the same draw, gold only
here) and none of its variety: useful documents are sentences of those gold passages that the
*query* asks for (``relevance``), noisy ones are other passages, of entities of the same type where
the world knows types, with every sentence that states the answer removed. A query that asks for no
gold passage finds noise, too. ``meta["simulated"]`` says which it was: ``useful``, ``noisy`` (by
the draw) or ``unrelated``; ``meta["evidence"]`` names the gold passages that were shown, so that
they are paid for as found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from ...corpora.corpus import Corpus, GeneratedCorpus
from ...errors import EngineError
from ...seeding import derive, stream
from ...types import Failure, PageSource, Passage, Query, Ranking, Task
from ...worlds.world import World
from .documents import Document, Shelf, SimulatedPages
from .engine import Kind, checked_noise, is_noisy, ranked
from .relevance import Relevance, excerpt, mentions, sentences

_TRIES = 20
"""Other passages looked at per noisy document wanted."""


class RulesEngine:
    """Pure in (query's key, parameters, task, k).

    ``noise`` as in ``simulated``; ``words``: length of a document; ``threshold``: how much of a
    gold query or title a query must hold (:class:`~.relevance.Relevance`). A query that belongs to
    no task is a ``Failure("rejected")``: without a task nothing is gold. ``EngineError`` for bad
    settings.
    """

    needs_task = True
    axes = frozenset({"noise"})

    def __init__(
        self,
        corpus: Corpus,
        world: World | None = None,
        *,
        noise: float = 0.0,
        words: int = 30,
        threshold: float = 0.5,
    ) -> None:
        if words < 1:
            raise EngineError(f"words must be ≥ 1, got {words}")
        self.corpus, self.noise, self.words = corpus, checked_noise(noise), words
        self.world = world if isinstance(corpus, GeneratedCorpus) else None
        self._relevance = Relevance(corpus, threshold)
        self.fingerprint = f"simulated_rules:{corpus.digest}:{noise}:{words}:{threshold}"
        self._shelf = Shelf()

    def cache_key(self, request: Query, /) -> None:
        """Return ``None``: answers are not shared, because documents are drawn per call."""
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
        useful = {} if noisy else self._useful(query, task, draw)
        documents = list(useful) or self._noisy(query, task, draw)
        kind: Kind = "noisy" if noisy else "useful" if useful else "unrelated"
        ranking = ranked(documents, kind, tuple(dict.fromkeys(useful.values())))
        self._shelf.put([hit.passage for hit in ranking])
        return ranking

    def _useful(self, query: Query, task: Task, draw: np.random.Generator) -> dict[Document, str]:
        """Excerpts of the gold passages that the query asks for, with the id of each one's passage:
        of each passage first, one that states what the query is after, as far as one does."""
        of_passages: list[list[tuple[Document, str]]] = []
        for passage, answer in self._relevance.hops(query.text, task):
            keep = [answer] if answer else []
            parts = sentences(passage.text)
            order = sorted(range(len(parts)), key=lambda i: not mentions(parts[i], keep))
            texts = [excerpt(parts, i, self.words, draw, keep=keep) for i in order]
            of_passages.append([(Document(passage.title, text), passage.id) for text in texts])
        rounds = zip_longest(*of_passages)
        documents = dict(pair for some in rounds for pair in some if pair is not None)
        return dict(islice(documents.items(), query.k))

    def _noisy(self, query: Query, task: Task, draw: np.random.Generator) -> list[Document]:
        """Excerpts of other passages, without the answer in any accepted form."""
        documents: dict[Document, None] = {}
        for passage in self._others(task, query):
            parts = [s for s in sentences(passage.text) if not mentions(s, task.answers)]
            if not parts:
                continue
            document = Document(
                passage.title, excerpt(parts, int(draw.integers(len(parts))), self.words, draw)
            )
            if mentions(f"{document.title} {document.text}", task.answers):
                continue  # about the answer, or it shows where two sentences meet
            documents[document] = None
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
    """Build for the registry: ``{"name": "simulated_rules", "noise": 0.3}``."""
    return RulesEngine(corpus, world, **options)  # type: ignore[arg-type]
