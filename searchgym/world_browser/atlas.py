"""Index of what can be browsed: a knowledge graph, its pages, and the tasks asked about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..corpora.corpus import Corpus, GeneratedCorpus
from ..engines.graph.index import graph_index
from ..envs.search import SearchEnv
from ..kgs.graph import KnowledgeGraph, Triple
from ..types import GraphEdge, Passage, Task
from .search import NameIndex

ENTITY = "entity"
"""The kind of whatever an imported graph holds: those have no types."""


class Place(NamedTuple):
    """The place where a fact is stated: ``corpus[passage].text[start:end]``."""

    passage: int
    start: int
    end: int


class Atlas:
    """A setting's graph, pages and tasks, each findable from the others.

    Entities go by their number in the graph, facts by their row, tasks by their place.

    Raises:
        EngineError: the corpus has no graph behind it.
    """

    def __init__(self, env: SearchEnv) -> None:
        index = graph_index(env.corpus, env.world)
        self.graph: KnowledgeGraph = index.graph
        self.corpus: Corpus = index.corpus
        self.tasks: Sequence[Task] = env.tasks
        self._page_of = index.page_of
        self._world = env.world

    # --- entities -----------------------------------------------------------------------------
    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of entities."""
        if self._world is None:
            return (ENTITY,)
        return tuple(t.name.replace("_", " ") for t in self._world.schema.types)

    def kind(self, entity: int) -> int:
        """Place of an entity's kind in :attr:`kinds`."""
        return 0 if self._world is None else int(self._world.type_of[entity])

    def members(self) -> list[int]:
        """Count the entities of each kind."""
        if self._world is None:
            return [self.graph.n_entities]
        counts = np.bincount(self._world.type_of, minlength=len(self.kinds))
        return [int(n) for n in counts]

    def other_names(self, entity: int) -> list[str]:
        """Return the other names of an entity, without its title."""
        graph = self.graph
        names = dict.fromkeys((graph.labels[entity], *graph.aliases[entity]))
        return [name for name in names if name and name != graph.titles[entity]]

    @cached_property
    def names(self) -> NameIndex:
        kinds = [self.kind(e) for e in range(self.graph.n_entities)]
        called = [(title, *self.other_names(e)) for e, title in enumerate(self.graph.titles)]
        return NameIndex(called, kinds)

    # --- pages and facts ----------------------------------------------------------------------
    def passage(self, entity: int) -> int:
        """Place of the entity's own page in the corpus."""
        return int(self._page_of[entity])

    def page(self, entity: int) -> Passage:
        return self.corpus[self.passage(entity)]

    @cached_property
    def _entity_of(self) -> dict[int, int]:
        return {int(where): e for e, where in enumerate(self._page_of.tolist())}

    def entity_of_passage(self, passage: int) -> int | None:
        """Entity whose own page a passage is; None for a page about nothing in particular."""
        return self._entity_of.get(passage)

    def facts(self, entity: int) -> tuple[list[Triple], list[Triple]]:
        """Facts whose head it is, and facts of others whose tail it is."""
        about = [t for t in self.graph.facts_about(entity) if t.head != entity]
        return self.graph.facts(entity), about

    def places(self, fact: int) -> list[Place]:
        """Every place that states a fact. Imported graphs do not know: ()."""
        if not isinstance(self.corpus, GeneratedCorpus):
            return []
        row = int(self.graph.source[fact])
        return [Place(s.passage, s.start, s.end) for s in self.corpus.statements(row)]

    def stated_in(self, passage: int) -> list[tuple[int, int, int]]:
        """``(fact, start, end)`` of every fact a page states, in order of position."""
        if not isinstance(self.corpus, GeneratedCorpus):
            return []
        rows = self._fact_of_row
        return [(rows[s.fact], s.start, s.end) for s in self.corpus.stated_in(passage)]

    @cached_property
    def _fact_of_row(self) -> dict[int, int]:
        return {row: fact for fact, row in enumerate(self.graph.source.tolist())}

    # --- tasks --------------------------------------------------------------------------------
    @cached_property
    def _task_of_id(self) -> dict[str, int]:
        return {task.id: place for place, task in enumerate(self.tasks)}

    def task_place(self, task_id: str) -> int | None:
        """Place of the task of this id."""
        return self._task_of_id.get(task_id)

    @cached_property
    def _tasks_of(self) -> dict[int, list[int]]:
        tasks_of: dict[int, list[int]] = {}
        for place, task in enumerate(self.tasks):
            for entity in self.entities_of(task):
                tasks_of.setdefault(entity, []).append(place)
        return tasks_of

    def tasks_of(self, entity: int) -> list[int]:
        """Places of the tasks in whose reasoning or evidence the entity occurs."""
        return self._tasks_of.get(entity, [])

    def entities_of(self, task: Task) -> list[int]:
        """Entities of a task's reasoning graph and gold pages, each once."""
        named = [node.value for node in task.graph.nodes] if task.graph else []
        titled = [self._titled[name] for name in named if name in self._titled]
        pages = [self.passage_entity(passage) for passage in task.evidence]
        return list(dict.fromkeys([*titled, *(e for e in pages if e is not None)]))

    def passage_entity(self, passage_id: str) -> int | None:
        """Entity whose page a passage id names."""
        if passage_id not in self.corpus:
            return None
        return self.entity_of_passage(self.corpus.position(passage_id))

    def titled(self, title: str) -> int | None:
        """The entity of this very title."""
        return self._titled.get(title)

    @cached_property
    def _titled(self) -> dict[str, int]:
        return {title: e for e, title in enumerate(self.graph.titles)}

    def place_of_edge(self, edge: GraphEdge) -> Place | None:
        """Return where an edge's passage states its fact; None where the fact is not there (what a
        task to be refused asks for) or its place is not known."""
        fact = self.fact_of_edge(edge)
        if fact is None or edge.passage not in self.corpus:
            return None
        where = self.corpus.position(edge.passage)
        return next((place for place in self.places(fact) if place.passage == where), None)

    def fact_of_edge(self, edge: GraphEdge) -> int | None:
        """The graph's row of an edge's fact; None for one that is not there."""
        return self._fact_of_row.get(edge.fact)

    def ends_of_edge(self, edge: GraphEdge) -> tuple[str, str] | None:
        """Subject and object of an edge's fact by title or value; None where it is not there."""
        fact = self.fact_of_edge(edge)
        if fact is None:
            return None
        triple = self.graph.triple(fact)
        tail = triple.value if triple.tail < 0 else self.graph.titles[triple.tail]
        return self.graph.titles[triple.head], tail
