"""Index that the graph engine's modes and the graph tools share: built once per corpus, lazily."""

from __future__ import annotations

from functools import cached_property

from ...corpora.corpus import Corpus, GeneratedCorpus
from ...errors import EngineError
from ...kgs.build import from_world
from ...kgs.communities import Communities, CommunitySearch, find_communities
from ...kgs.corpus import PER_RELATION, KGCorpus, fact_lines
from ...kgs.graph import IntArray, KnowledgeGraph
from ...kgs.names import Linker
from ...kgs.rankings import TextVectors, best, personalised_pagerank
from ...types import Passage
from ...worlds.world import World
from ..analysis import Analyser

SEED = 0


class GraphIndex:
    """A graph with its passages, names, vectors and communities. Rankings are best first, ties by
    the entities' passages.

    ``page_of``: (N,) place of each entity's passage in the corpus.
    """

    def __init__(self, graph: KnowledgeGraph, corpus: Corpus, page_of: IntArray) -> None:
        self.graph, self.corpus, self.page_of = graph, corpus, page_of
        self.fingerprint = f"graph-index:{corpus.digest}:{graph.digest}"

    def page(self, entity: int) -> Passage:
        """The entity's own passage."""
        return self.corpus[int(self.page_of[entity])]

    def known(self, entity: int) -> Passage:
        """The entity's passage with all it states as facts in place of its sentences."""
        page, graph = self.page(entity), self.graph
        lines = [graph.descriptions[entity]] if graph.descriptions[entity] else []
        facts = graph.facts(entity)
        lines += fact_lines(graph, facts, per_relation=max(len(facts), 1))
        about = graph.facts_about(entity)
        lines += fact_lines(graph, about, per_relation=PER_RELATION, about=True)
        return page._replace(text="\n".join(lines))

    # --- names --------------------------------------------------------------------------------
    @cached_property
    def linker(self) -> Linker:
        graph = self.graph
        return Linker((graph.titles, graph.labels), graph.aliases)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {key: e for e, key in enumerate(self.graph.ids)}

    @cached_property
    def _relation(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for column in (self.graph.relations, self.graph.relation_words):
            for r, name in enumerate(column):
                names.setdefault(name.casefold(), r)
        return names

    def entity(self, name: str) -> tuple[int, ...]:
        """Entities of this id, or called so: the one with most facts first; () if there is none."""
        if (number := self._number.get(name)) is not None:
            return (number,)
        entities = self.linker.named(name)
        return tuple(sorted(entities, key=lambda e: (-int(self.graph.degree[e]), e)))

    def relation(self, name: str) -> int | None:
        """A relation by its name in the source or in words."""
        key = name.strip().casefold()
        number = self._relation.get(key)
        return self._relation.get(key.replace("_", " ")) if number is None else number

    def near_names(self, name: str, k: int = 3) -> list[str]:
        """Titles of entities named within a name, then of those most like it, for messages."""
        entities = [*self.linked(name), *best(self.vectors.scores(name), k)]
        return [self.graph.titles[e] for e in dict.fromkeys(entities)][:k]

    # --- rankings -----------------------------------------------------------------------------
    @cached_property
    def vectors(self) -> TextVectors:
        """Vectors of titles (counted thrice), other names and passages (imported graph: facts)."""
        analyser = Analyser(stopwords="english")
        graph = self.graph
        texts = (
            "\n".join((*(graph.titles[e],) * 3, *graph.aliases[e], self.page(e).text))
            for e in range(graph.n_entities)
        )
        return TextVectors(texts, analyser.terms)

    @cached_property
    def communities(self) -> Communities:
        return find_communities(self.graph, seed=SEED)

    @cached_property
    def community_search(self) -> CommunitySearch:
        return CommunitySearch(self.communities, self.vectors, self.page_of)

    def linked(self, text: str) -> dict[int, float]:
        """Entities named in a text: each mention weighs 1, shared among homonyms."""
        weights: dict[int, float] = {}
        for _, entities in self.linker.mentions(text):
            for e in entities:
                weights[e] = weights.get(e, 0.0) + 1 / len(entities)
        return weights

    def ppr(self, text: str, k: int) -> list[tuple[int, float]]:
        """``(entity, share)`` by personalised PageRank from the entities named; [] if none is."""
        restart = self.linked(text)
        if not restart:
            return []
        rank = personalised_pagerank(self.graph, restart)
        return [(e, float(rank[e])) for e in best(rank, k, order=self.page_of)]

    def similar(self, text: str, k: int) -> list[tuple[int, float]]:
        """``(entity, cosine)`` over all entities: the exhaustive search."""
        scores = self.vectors.scores(text)
        return [(e, float(scores[e])) for e in best(scores, k, order=self.page_of)]


_KEPT = "_graph_index"
"""Attribute in which a corpus keeps its index, so that both have one lifetime."""


def graph_index(corpus: Corpus, world: World | None = None) -> GraphIndex:
    """The index of a corpus that has a graph behind it; one per corpus, shared.

    Of a generated world only facts that the corpus states are in the graph: what agents look up is
    what they could have read. Raises ``EngineError`` for a corpus of mere texts.
    """
    index: GraphIndex | None = vars(corpus).get(_KEPT)
    if index is not None:
        return index
    if isinstance(corpus, KGCorpus):
        index = GraphIndex(corpus.graph, corpus, corpus.page_of)
    elif world is not None and isinstance(corpus, GeneratedCorpus):
        if len(corpus.page_of) != world.n_entities:
            raise EngineError(
                f"corpus {corpus.name!r} has pages for {len(corpus.page_of)} entities, the world "
                f"has {world.n_entities}: they do not belong together"
            )
        graph = from_world(world, facts=corpus.stated, name=corpus.name)
        index = GraphIndex(graph, corpus, corpus.page_of)
    else:
        raise EngineError(
            f"corpus {corpus.name!r} has no graph behind it: use a generated world, or a knowledge "
            'graph with corpus="kg:PATH"'
        )
    vars(corpus)[_KEPT] = index
    return index
