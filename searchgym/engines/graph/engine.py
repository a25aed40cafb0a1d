"""Look-up of entities by name; modes for facts, neighbours, PageRank and communities: over
generated worlds and knowledge graphs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...batching import text_and_k
from ...corpora.corpus import Corpus, GeneratedCorpus
from ...errors import EngineError
from ...kgs.corpus import KGCorpus
from ...kgs.names import Linker
from ...types import Hit, Query, Ranking, SearchEngine
from ...worlds.world import World

_make_hit = partial(tuple.__new__, Hit)
_REMEMBERED = 1 << 16
_MOST_NEIGHBOURS = 256
OBJECT_SCORE, SUBJECT_SCORE = 0.5, 0.25


class PageLookup(ABC):
    """Pages of the entities a query names, then those of their neighbours in the graph.

    Names and titles are found as word sequences, ignoring case and punctuation, the longest first.
    A named entity scores 1 plus the number of words that named it (homonyms tie); pages of objects
    of its stated facts score 0.5, pages of subjects of stated facts about it 0.25 (at most 256
    neighbours). A query that names nothing has no hits.
    """

    needs_task = False
    fingerprint: str

    def __init__(self, linker: Linker, corpus: GeneratedCorpus | KGCorpus) -> None:
        self._mentions = linker.mentions
        self._passages = list(corpus)
        self._page_of: list[int] = corpus.page_of.tolist()
        self._rankings: dict[tuple[object, int], Ranking] = {}

    @abstractmethod
    def _neighbours(self, entity: int) -> list[tuple[int, float]]:
        """Entities joined to ``entity`` by a stated fact with their scores, objects before
        subjects."""

    def mentions(self, text: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """``(words, entities)`` of each name found, left to right, longest first, no overlaps."""
        return self._mentions(text)

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: the engine is pure in them."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order."""
        return [self._look_up(query.text, query.k) for query in batch]

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        return [self._look_up(text, k) for text in texts]

    def _look_up(self, text: str, k: int) -> Ranking:
        mentions = self._mentions(text)
        if not mentions or k <= 0:
            return ()
        known = self._rankings.get((mentions, k))
        if known is None:
            known = self._rank(mentions, k)
            if len(self._rankings) >= _REMEMBERED:
                self._rankings.clear()
            self._rankings[mentions, k] = known
        return known

    def _rank(self, mentions: tuple[tuple[int, tuple[int, ...]], ...], k: int) -> Ranking:
        scores: dict[int, float] = {}  # by passage position

        def give(entity: int, score: float) -> None:
            page = self._page_of[entity]
            scores[page] = max(score, scores.get(page, 0.0))

        for length, entities in mentions:
            for entity in entities:
                give(entity, 1.0 + length)
        for _, entities in mentions:
            for entity in entities:
                if len(scores) >= max(k, _MOST_NEIGHBOURS):
                    break
                for neighbour, score in self._neighbours(entity):
                    give(neighbour, score)
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return tuple(_make_hit((self._passages[page], score)) for page, score in best)


class GraphEngine(PageLookup):
    """Pages of a generated world; see :class:`PageLookup`."""

    def __init__(self, world: World, corpus: GeneratedCorpus) -> None:
        if len(corpus.page_of) != world.n_entities:
            raise EngineError(
                f"corpus {corpus.name!r} has pages for {len(corpus.page_of)} entities, the world "
                f"has {world.n_entities}: they do not belong together"
            )
        super().__init__(Linker((world.titles, world.names)), corpus)
        self.world, self.corpus = world, corpus
        h = hashlib.sha256()
        for column in (world.subject_of, world.property_of, world.object_of):
            h.update(np.ascontiguousarray(column).tobytes())
        self.fingerprint = f"graph:{corpus.digest}:{h.hexdigest()[:16]}"

    def _neighbours(self, entity: int) -> list[tuple[int, float]]:
        world, near = self.world, []
        properties = world.schema.properties
        for row in range(int(world.indptr[entity]), int(world.indptr[entity + 1])):
            relation = properties[int(world.property_of[row])].is_relation
            if relation and self.corpus.statements(row):
                near.append((int(world.object_of[row]), OBJECT_SCORE))
        lo, hi = int(world.inverse_indptr[entity]), int(world.inverse_indptr[entity + 1])
        for row in world.inverse_order[lo:hi].tolist():
            if len(near) >= _MOST_NEIGHBOURS:
                break
            if self.corpus.statements(row):
                near.append((int(world.subject_of[row]), SUBJECT_SCORE))
        return near


class KGPages(PageLookup):
    """Pages of an imported knowledge graph; see :class:`PageLookup`. Other names count, too."""

    def __init__(self, corpus: KGCorpus) -> None:
        graph = corpus.graph
        super().__init__(Linker((graph.titles, graph.labels), graph.aliases), corpus)
        self.graph, self.corpus = graph, corpus
        self.fingerprint = f"graph:{corpus.digest}:{graph.digest}"

    def _neighbours(self, entity: int) -> list[tuple[int, float]]:
        facts, about = self.graph.facts(entity), self.graph.facts_about(entity)
        near = [(fact.tail, OBJECT_SCORE) for fact in facts if fact.tail >= 0]
        near += [(fact.head, SUBJECT_SCORE) for fact in about]
        return near[:_MOST_NEIGHBOURS]


def make(corpus: Corpus, world: World | None, mode: str = "pages", **options: Any) -> SearchEngine:
    """Build for the registry: ``EngineError`` where there is no graph behind the corpus.

    ``mode``: "pages" (default) looks pages up by name; "facts", "neighbours", "ppr" and
    "communities" are those of :class:`searchgym.engines.graph.modes.GraphSearch`.
    """
    graphed = isinstance(corpus, KGCorpus) or (
        world is not None and isinstance(corpus, GeneratedCorpus)
    )
    if not graphed:
        raise EngineError(
            'engine "graph" needs a generated world or a knowledge graph (corpus="kg:PATH"); use '
            'engine="bm25" here'
        )
    if mode != "pages":
        from .modes import make_mode

        return make_mode(corpus, world, mode, **options)
    if isinstance(corpus, KGCorpus):
        return KGPages(corpus, **options)
    assert world is not None
    assert isinstance(corpus, GeneratedCorpus)
    return GraphEngine(world, corpus, **options)
