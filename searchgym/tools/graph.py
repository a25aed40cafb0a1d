"""The graph as tools for agents: facts, neighbours, paths, rankings, community search.

Names are those that results show; an unknown name is answered with the nearest ones, not
with an error. Each result tells (``meta["facts"]``) which rows of the source's facts it showed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from ..engines.graph.engine import GraphSearch
from ..engines.graph.index import GraphIndex, graph_index
from ..kgs.communities import BEAM
from ..kgs.graph import MAX_HOPS, KnowledgeGraph, Triple, neighbours, path_entities, shortest_path
from ..types import Hit, ToolResult, ToolSpec
from .base import Tool, ToolContext

K, MOST = 5, 50
"""Results if a call does not say how many (AgentGL's top 5), and at most."""
MAX_LEN = 6
_NODE = {
    "type": "string", "minLength": 1, "maxLength": 200, "description": "An entity's name.",
}  # fmt: skip
_RELATION = {
    "type": "string", "minLength": 1, "maxLength": 200,
    "description": "Only facts of this relation.",
}  # fmt: skip
_QUERY = {"type": "string", "minLength": 1, "maxLength": 1_000}
_K = {"type": "integer", "minimum": 1, "maximum": MOST, "description": f"Results; default {K}."}


def _spec(name: str, description: str, required: Sequence[str], **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, description, schema)


class GraphTool(Tool):
    """Base class of tools over one graph; pure in the call's arguments.

    Args:
        index: The graph's index; by default that of the environment's corpus.
        cost: Cost of each call.
    """

    MODE: ClassVar[str] = "facts"
    """Mode in which entities are shown (``searchgym.engines.graph.engine``)."""
    PASSAGES: ClassVar[bool] = False
    time_limit = None
    """True if they are shown with their passages."""
    index: GraphIndex
    engine: GraphIndex
    graph: KnowledgeGraph

    def __init__(self, index: GraphIndex | None = None, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        if index is not None:
            self._over(index)

    def bind(self, context: ToolContext) -> Self:
        """A copy over the graph behind the environment's corpus; ``EngineError`` without one."""
        if hasattr(self, "index"):
            return self
        bound = copy.copy(self)
        bound._over(graph_index(context.corpus, context.world))
        return bound

    def _over(self, index: GraphIndex) -> None:
        self.index = self.engine = index
        self.graph = index.graph
        self._show = GraphSearch(index, self.MODE, passages=self.PASSAGES)

    # --- shared -------------------------------------------------------------------------------
    def _entity(self, name: str) -> tuple[int | None, str]:
        """The entity of a name, and what to say about the name: homonyms, or that there is none."""
        matches, titles = self.index.entity(name), self.graph.titles
        if not matches:
            near = self.index.near_names(name)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            return None, f"No entity is called {name}.{hint}"
        if len(matches) == 1:
            return matches[0], ""
        others = "; ".join(titles[e] for e in matches[1 : K + 1])
        more = f"; and {len(matches) - K - 1} more" if len(matches) > K + 1 else ""
        return matches[0], f"Taken to be {titles[matches[0]]}. Also called so: {others}{more}."

    def _relation(self, name: str | None) -> tuple[int | None, str]:
        """The relation of a name (None: any), and what to say if there is none of that name."""
        if name is None:
            return None, ""
        relation = self.index.relation(name)
        known = "; ".join(self.graph.relation_words[:MOST])
        return (
            relation,
            f"No relation is called {name}. Relations: {known}" if relation is None else "",
        )

    def _said(self, note: str, facts: Iterable[int], lines: Iterable[str]) -> ToolResult:
        text = "\n".join(filter(None, (note, *lines)))
        return ToolResult((text,), meta={"facts": self._rows(facts)})

    def _rows(self, facts: Iterable[int]) -> list[int]:
        return [int(self.graph.source[fact]) for fact in dict.fromkeys(facts)]

    def _words(self, facts: Iterable[int]) -> str:
        return "; ".join(self.graph.in_words(self.graph.triple(fact)) for fact in facts)

    def _listed(self, scored: Sequence[tuple[int, float]]) -> ToolResult:
        """Entities with all their facts, as hits."""
        if not scored:
            return ToolResult(("Nothing was found.",))
        facts = [t.id for e, _ in scored for t in self.graph.facts(e)]
        hits = tuple(Hit(self._show.show(e), score) for e, score in scored)
        return ToolResult((), hits, meta={"facts": self._rows(facts)})


class FactsTool(GraphTool):
    """``graph_facts``: what is stated of an entity, and of others about it."""

    spec = _spec(
        "graph_facts", "All facts of an entity, or those of one relation.", ("entity",),
        entity=_NODE, relation=_RELATION,
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        entity, note = self._entity(args["entity"])
        relation, wrong = self._relation(args.get("relation"))
        if entity is None or wrong:
            return ToolResult(("\n".join(filter(None, (note, wrong))),))
        facts: list[Triple] = self.graph.facts(entity, relation)
        about = [t for t in self.graph.facts_about(entity, relation) if t.head != entity][:MOST]
        lines = [self.graph.in_words(t) for t in (*facts, *about)]
        return self._said(note, [t.id for t in (*facts, *about)], lines or ["No such fact."])


class NeighborsTool(GraphTool):
    """``graph_neighbors``: entities one or exactly two facts away, most joined first."""

    spec = _spec(
        "graph_neighbors",
        "Entities joined to an entity by a fact; with hops 2, only those exactly two facts away.",
        ("node",), node=_NODE, relation=_RELATION, k=_K,
        hops={"type": "integer", "minimum": 1, "maximum": MAX_HOPS, "description": "Default 1."},
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        entity, note = self._entity(args["node"])
        relation, wrong = self._relation(args.get("relation"))
        if entity is None or wrong:
            return ToolResult(("\n".join(filter(None, (note, wrong))),))
        near = neighbours(self.graph, entity, relation=relation, hops=args.get("hops", 1))
        kept = near[: args.get("k", K)]
        if not kept:
            return self._said(note, (), ["No such neighbour."])
        head = f"{len(kept)} of {len(near)} neighbours of {self.graph.titles[entity]}:"
        lines = [f"{self.graph.titles[n.entity]} ({self._words(n.facts[:K])})" for n in kept]
        return self._said(note, [f for n in kept for f in n.facts[:K]], [head, *lines])


class PathTool(GraphTool):
    """``graph_path``: a shortest chain of facts between two entities."""

    spec = _spec(
        "graph_path", "A shortest chain of facts that joins two entities.", ("a", "b"),
        a=_NODE, b=_NODE,
        max_len={"type": "integer", "minimum": 1, "maximum": MAX_LEN,
                 "description": f"Most facts in the chain; default {MAX_LEN}."},
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        (a, about_a), (b, about_b) = self._entity(args["a"]), self._entity(args["b"])
        notes = "\n".join(filter(None, (about_a, about_b)))
        if a is None or b is None:
            return ToolResult((notes,))
        limit = args.get("max_len", MAX_LEN)
        path = shortest_path(self.graph, a, b, max_len=limit)
        if path is None:
            return self._said(notes, (), [f"No chain of at most {limit} facts joins them."])
        titles = " → ".join(self.graph.titles[e] for e in path_entities(self.graph, a, path))
        return self._said(notes, path, [titles, *(self._words([fact]) for fact in path)])


class RankTool(GraphTool):
    """``graph_rank``: entities by personalised PageRank from those named, or by likeness."""

    MODE = "ppr"
    spec = _spec(
        "graph_rank",
        "Entities with their facts: most central around those the query names (method ppr), or "
        "most like the query (method sim).",
        ("query",), query=_QUERY, k=_K,
        method={"type": "string", "enum": ["ppr", "sim"], "description": "Default ppr."},
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        rank = self.index.similar if args.get("method") == "sim" else self.index.ppr
        return self._listed(rank(args["query"], args.get("k", K)))


class CommunitySearchTool(GraphTool):
    """``community_search``: a beam search down the graph's communities."""

    MODE = "communities"
    spec = _spec(
        "community_search",
        "Entities with their facts, found through the graph's communities that fit the query.",
        ("query",), query=_QUERY, k=_K,
        beam={"type": "integer", "minimum": 0,
              "description": f"Communities kept per level; 0: all; default {BEAM}."},
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        beam = args.get("beam", BEAM) or math.inf
        search = self.index.community_search
        return self._listed(search.search(args["query"], args.get("k", K), beam))


class HybridTool(GraphTool):
    """``graph_search``: facts and passages together (GraphRAG-R1), ranked by PageRank from the
    entities the query names, or by likeness if it names none."""

    MODE, PASSAGES = "ppr", True
    spec = _spec(
        "graph_search", "Facts and passages on a query, from the graph around what it names.",
        ("query",), query=_QUERY, k=_K,
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        query, k = args["query"], args.get("k", K)
        return self._listed(self.index.ppr(query, k) or self.index.similar(query, k))
