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
from ...errors import EngineError, unknown
from ...kgs.communities import BEAM
from ...kgs.corpus import KGCorpus
from ...kgs.graph import neighbours
from ...kgs.names import Linker
from ...types import Hit, Passage, Query, Ranking, SearchEngine
from ...worlds.world import World
from .index import GraphIndex, graph_index

_make_hit = partial(tuple.__new__, Hit)
MODES = ("facts", "neighbours", "ppr", "communities")
_SHOWN, _REMEMBERED = 1 << 12, 1 << 16
"""Passages and rankings that are remembered."""
_MOST_NEIGHBOURS = 256
OBJECT_SCORE, SUBJECT_SCORE = 0.5, 0.25


class TextSearch(ABC):
    """Base of engines that are pure in a query's text and k."""

    needs_task = False
    fingerprint: str

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order."""
        return [self._one(query.text, query.k) for query in batch]

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        return [self._one(text, k) for text in texts]

    @abstractmethod
    def _one(self, text: str, k: int) -> Ranking: ...


class GraphSearch(TextSearch):
    """Entities by what the graph says of a query; the hits' texts are facts.

    - ``facts``: the entities the query names (score: 1 + words that named it);
    - ``neighbours``: those, then their neighbours (at most 1, by facts that join the two);
    - ``ppr``: personalised PageRank from the entities the query names;
    - ``communities``: beam search through the communities, ``beam`` wide (``inf``: all).

    A hit's id, title and URL are those of the entity's passage; its text is every fact of the
    entity ("director: Christopher Nolan"), with ``passages`` also the passage itself. A query that
    names nothing has no hits, except from ``communities``, which goes by likeness.
    """

    def __init__(
        self, index: GraphIndex, mode: str, *, passages: bool = False, beam: float = BEAM
    ) -> None:
        if mode not in MODES:
            raise EngineError(unknown("mode of the graph engine", mode, ("pages", *MODES)))
        if not beam >= 1:
            raise EngineError(f"beam must be at least 1, got {beam}")
        self.index, self.mode, self.passages, self.beam = index, mode, passages, float(beam)
        own = f"{mode}:{passages}:{self.beam if mode == 'communities' else ''}"
        self.fingerprint = f"graph:{own}:{index.fingerprint}"
        self._texts: dict[int, Passage] = {}

    def _one(self, text: str, k: int) -> Ranking:
        if k <= 0 or not text.strip():
            return ()
        if self.mode == "ppr":
            ranked = self.index.ppr(text, k)
        elif self.mode == "communities":
            ranked = self.index.community_search.search(text, k, self.beam)
        else:
            ranked = self._named(text, k)
        return tuple(_make_hit((self.show(e), score)) for e, score in ranked)

    def _named(self, text: str, k: int) -> list[tuple[int, float]]:
        scores: dict[int, float] = {}
        for length, entities in self.index.linker.mentions(text):
            for e in entities:
                scores[e] = max(1.0 + length, scores.get(e, 0.0))
        if self.mode == "neighbours":
            for e in list(scores):
                near = neighbours(self.index.graph, e)
                most = max((n.ways for n in near), default=1)
                for n in near:
                    scores[n.entity] = max(scores.get(n.entity, 0.0), n.ways / most)
        page_of = self.index.page_of
        return sorted(scores.items(), key=lambda item: (-item[1], int(page_of[item[0]])))[:k]

    def show(self, entity: int) -> Passage:
        """The entity as a hit's passage."""
        shown = self._texts.get(entity)
        if shown is None:
            shown = known = self.index.known(entity)
            if self.passages:
                shown = known._replace(
                    text=f"Facts:\n{known.text}\nPassage:\n{self.index.page(entity).text}"
                )
            if len(self._texts) >= _SHOWN:
                self._texts.clear()
            self._texts[entity] = shown
        return shown


class PageLookup(TextSearch):
    """Pages of the entities a query names, then those of their neighbours in the graph.

    Names and titles are found as word sequences, ignoring case and punctuation, the longest first.
    A named entity scores 1 plus the number of words that named it (homonyms tie); pages of objects
    of its stated facts score 0.5, pages of subjects of stated facts about it 0.25 (at most 256
    neighbours). A query that names nothing has no hits.
    """

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

    def _one(self, text: str, k: int) -> Ranking:
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

    Args:
        corpus: Passages of a generated world or a knowledge graph.
        world: The world.
        mode: "pages" (default) looks pages up by name; the others are those of ``GraphSearch``.
        options: Those of the mode.
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
        return GraphSearch(graph_index(corpus, world), mode, **options)
    if isinstance(corpus, KGCorpus):
        return KGPages(corpus, **options)
    assert world is not None
    assert isinstance(corpus, GeneratedCorpus)
    return GraphEngine(world, corpus, **options)
