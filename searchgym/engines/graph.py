"""Look-up of entities by name: the cleanest and cheapest engine, for generated worlds only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..corpora.corpus import Corpus, GeneratedCorpus
from ..errors import EngineError
from ..types import Hit, Query, Ranking
from ..worlds.world import World

_words = re.compile(r"\w+").findall
_make_hit = partial(tuple.__new__, Hit)
_REMEMBERED = 1 << 16
_MOST_NEIGHBOURS = 256
OBJECT_SCORE, SUBJECT_SCORE = 0.5, 0.25


class GraphEngine:
    """Pages of the entities a query names, then those of their neighbours in the graph.

    Names and titles are found as word sequences, ignoring case and punctuation, the longest first.
    A named entity scores 1 plus the number of words that named it (homonyms tie); pages of objects
    of its stated facts score 0.5, pages of subjects of stated facts about it 0.25 (at most 256
    neighbours). A query that names nothing has no hits.
    """

    needs_task = False

    def __init__(self, world: World, corpus: GeneratedCorpus) -> None:
        if len(corpus.page_of) != world.n_entities:
            raise EngineError(
                f"corpus {corpus.name!r} has pages for {len(corpus.page_of)} entities, the world "
                f"has {world.n_entities}: they do not belong together"
            )
        self.world, self.corpus = world, corpus
        h = hashlib.sha256()
        for column in (world.subject_of, world.property_of, world.object_of):
            h.update(np.ascontiguousarray(column).tobytes())
        self.fingerprint = f"graph:{corpus.digest}:{h.hexdigest()[:16]}"
        self._passages = list(corpus)
        self._page_of: list[int] = corpus.page_of.tolist()
        self._named: dict[str, tuple[int, ...]] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        self._rankings: dict[tuple[object, int], Ranking] = {}
        self._learn_names()

    def _learn_names(self) -> None:
        lengths: dict[str, set[int]] = {}
        for names in (self.world.titles, self.world.names):
            for entity, name in enumerate(names):
                words = _words(name.lower())
                if not words:
                    continue
                key = " ".join(words)
                known = self._named.get(key, ())
                if entity not in known:
                    self._named[key] = (*known, entity)
                lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {w: tuple(sorted(n, reverse=True)) for w, n in lengths.items()}

    def mentions(self, text: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """``(words, entities)`` of each name found, left to right, longest first, no overlaps."""
        words = _words(text.lower())
        found: list[tuple[int, tuple[int, ...]]] = []
        lengths, named = self._lengths, self._named
        i, n = 0, len(words)
        while i < n:
            for length in lengths.get(words[i], ()):
                entities = named.get(" ".join(words[i : i + length]))
                if entities is not None and i + length <= n:
                    found.append((length, entities))
                    i += length
                    break
            else:
                i += 1
        return tuple(found)

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: the engine is pure in them."""
        return f"{request.k}\0{request.text}".encode("utf-8", "surrogatepass")

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order."""
        return [self._look_up(query.text, query.k) for query in batch]

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        return [self._look_up(text, k) for text in texts]

    def _look_up(self, text: str, k: int) -> Ranking:
        found = self.mentions(text)
        if not found or k <= 0:
            return ()
        known = self._rankings.get((found, k))
        if known is None:
            known = self._rank(found, k)
            if len(self._rankings) >= _REMEMBERED:
                self._rankings.clear()
            self._rankings[found, k] = known
        return known

    def _rank(self, found: tuple[tuple[int, tuple[int, ...]], ...], k: int) -> Ranking:
        scores: dict[int, float] = {}  # by passage position

        def give(entity: int, score: float) -> None:
            page = self._page_of[entity]
            scores[page] = max(score, scores.get(page, 0.0))

        for length, entities in found:
            for entity in entities:
                give(entity, 1.0 + length)
        for _, entities in found:
            for entity in entities:
                if len(scores) >= max(k, _MOST_NEIGHBOURS):
                    break
                for neighbour, score in self._neighbours(entity):
                    give(neighbour, score)
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return tuple(_make_hit((self._passages[page], score)) for page, score in best)

    def _neighbours(self, entity: int) -> list[tuple[int, float]]:
        """Entities joined to ``entity`` by a fact the corpus states, objects before subjects."""
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


def make(corpus: Corpus, world: World | None, **options: Any) -> GraphEngine:
    """For the registry: ``EngineError`` where there is no generated world."""
    if world is None or not isinstance(corpus, GeneratedCorpus):
        raise EngineError('engine "graph" needs a generated world; use engine="bm25" here')
    return GraphEngine(world, corpus, **options)
