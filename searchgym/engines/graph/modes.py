"""The graph engine's modes: rankings computed on the graph, shown as facts in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...batching import text_and_k
from ...corpora.corpus import Corpus
from ...errors import EngineError, unknown
from ...kgs.communities import BEAM
from ...kgs.walks import neighbours
from ...types import Hit, Passage, Query, Ranking
from ...worlds.world import World
from .index import GraphIndex, graph_index

MODES = ("facts", "neighbours", "ppr", "communities")
_REMEMBERED = 1 << 12


class GraphSearch:
    """Entities by what the graph says of a query; the hits' texts are facts.

    - ``facts``: the entities the query names (score: 1 + words that named it);
    - ``neighbours``: those, then their neighbours (at most 1, by facts that join the two);
    - ``ppr``: personalised PageRank from the entities the query names;
    - ``communities``: beam search through the communities, ``beam`` wide (``inf``: all).

    A hit's id, title and URL are those of the entity's passage; its text is every fact of the
    entity ("director: Christopher Nolan"), with ``passages`` also the passage itself. A query that
    names nothing has no hits, except from ``communities``, which goes by likeness.
    """

    needs_task = False

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

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: the engine is pure in them."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order."""
        return [self._one(query.text, query.k) for query in batch]

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        return [self._one(text, k) for text in texts]

    def _one(self, text: str, k: int) -> Ranking:
        if k <= 0 or not text.strip():
            return ()
        if self.mode == "ppr":
            ranked = self.index.ppr(text, k)
        elif self.mode == "communities":
            ranked = self.index.community_search.search(text, k, self.beam)
        else:
            ranked = self._named(text, k)
        return tuple(Hit(self.show(e), score) for e, score in ranked)

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
            if len(self._texts) >= _REMEMBERED:
                self._texts.clear()
            self._texts[entity] = shown
        return shown


def make_mode(
    corpus: Corpus,
    world: World | None,
    mode: str,
    *,
    communities: str | Path | None = None,
    **options: Any,
) -> GraphSearch:
    """Build for the registry. ``communities``: a file that keeps them between processes."""
    if mode not in MODES:
        raise EngineError(unknown("mode of the graph engine", mode, ("pages", *MODES)))
    return GraphSearch(graph_index(corpus, world, communities), mode, **options)
