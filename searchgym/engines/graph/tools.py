"""The graph as tools for agents: facts, neighbours, paths, rankings, community search.

Names are those that results show; a name that nobody bears is answered with the nearest ones, not
with an error. Each result tells (``meta["facts"]``) which rows of the source's facts it showed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...corpora.corpus import Corpus
from ...kgs.communities import BEAM
from ...kgs.graph import Triple
from ...kgs.walks import MAX_HOPS, neighbours, path_entities, shortest_path
from ...types import Failure, Hit, ToolCall, ToolResult, ToolSpec
from ...worlds.world import World
from .index import GraphIndex, graph_index
from .modes import GraphSearch

K, MOST = 5, 50
"""Results if a call does not say how many (AgentGL's top 5), and at most."""
MAX_LEN = 6
_NODE = {"type": "string", "minLength": 1, "description": "An entity's name."}
_RELATION = {"type": "string", "minLength": 1, "description": "Only facts of this relation."}
_K = {"type": "integer", "minimum": 1, "maximum": MOST, "description": f"Results; default {K}."}


def _spec(name: str, description: str, required: Sequence[str], **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, description, schema)


class GraphTool(ABC):
    """A tool over one graph; pure in the call's arguments."""

    spec: ToolSpec
    needs_task = False

    def __init__(self, index: GraphIndex) -> None:
        self.index = self.engine = index
        self.graph = index.graph

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call, in order."""
        return [self.use(call.args) for call in batch]

    @abstractmethod
    def use(self, args: Mapping[str, Any]) -> ToolResult:
        """What the tool says to arguments that fit its schema."""

    # --- shared -------------------------------------------------------------------------------
    def _entity(self, name: str) -> tuple[int | None, str]:
        """The entity of a name, and what to say about the name: homonyms, or that there is none."""
        found, titles = self.index.entity(name), self.graph.titles
        if not found:
            near = self.index.near_names(name)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            return None, f"No entity is called {name}.{hint}"
        if len(found) == 1:
            return found[0], ""
        others = "; ".join(titles[e] for e in found[1 : K + 1])
        more = f"; and {len(found) - K - 1} more" if len(found) > K + 1 else ""
        return found[0], f"Taken to be {titles[found[0]]}. Also called so: {others}{more}."

    def _relation(self, name: str | None) -> tuple[int | None, str]:
        """The relation of a name (None: any), and what to say if there is none of that name."""
        if name is None:
            return None, ""
        found = self.index.relation(name)
        known = "; ".join(self.graph.relation_words[:MOST])
        return found, f"No relation is called {name}. Relations: {known}" if found is None else ""

    def _said(self, note: str, facts: Iterable[int], lines: Iterable[str]) -> ToolResult:
        text = "\n".join(filter(None, (note, *lines)))
        return ToolResult((text,), meta={"facts": self._rows(facts)})

    def _rows(self, facts: Iterable[int]) -> list[int]:
        return [int(self.graph.source[fact]) for fact in dict.fromkeys(facts)]

    def _words(self, facts: Iterable[int]) -> str:
        return "; ".join(self.graph.in_words(self.graph.triple(fact)) for fact in facts)

    def _listed(self, found: Sequence[tuple[int, float]], show: GraphSearch) -> ToolResult:
        """Entities with all their facts, as hits."""
        if not found:
            return ToolResult(("Nothing was found.",))
        facts = [t.id for e, _ in found for t in self.graph.facts(e)]
        hits = tuple(Hit(show.show(e), score) for e, score in found)
        return ToolResult((), hits, meta={"facts": self._rows(facts)})


class FactsTool(GraphTool):
    """``graph_facts``: what is stated of an entity, and of others about it."""

    spec = _spec(
        "graph_facts", "All facts of an entity, or those of one relation.", ("entity",),
        entity=_NODE, relation=_RELATION,
    )  # fmt: skip

    def use(self, args: Mapping[str, Any]) -> ToolResult:
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

    def use(self, args: Mapping[str, Any]) -> ToolResult:
        entity, note = self._entity(args["node"])
        relation, wrong = self._relation(args.get("relation"))
        if entity is None or wrong:
            return ToolResult(("\n".join(filter(None, (note, wrong))),))
        found = neighbours(self.graph, entity, relation=relation, hops=args.get("hops", 1))
        kept = found[: args.get("k", K)]
        if not kept:
            return self._said(note, (), ["No such neighbour."])
        head = f"{len(kept)} of {len(found)} neighbours of {self.graph.titles[entity]}:"
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

    def use(self, args: Mapping[str, Any]) -> ToolResult:
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

    spec = _spec(
        "graph_rank",
        "Entities with their facts: most central around those the query names (method ppr), or "
        "most like the query (method sim).",
        ("query",), query={"type": "string", "minLength": 1}, k=_K,
        method={"type": "string", "enum": ["ppr", "sim"], "description": "Default ppr."},
    )  # fmt: skip

    def __init__(self, index: GraphIndex) -> None:
        super().__init__(index)
        self._show = GraphSearch(index, "ppr")

    def use(self, args: Mapping[str, Any]) -> ToolResult:
        rank = self.index.similar if args.get("method") == "sim" else self.index.ppr
        return self._listed(rank(args["query"], args.get("k", K)), self._show)


class CommunitySearchTool(GraphTool):
    """``community_search``: a beam search down the graph's communities."""

    spec = _spec(
        "community_search",
        "Entities with their facts, found through the graph's communities that fit the query.",
        ("query",), query={"type": "string", "minLength": 1}, k=_K,
        beam={"type": "integer", "minimum": 0,
              "description": f"Communities kept per level; 0: all; default {BEAM}."},
    )  # fmt: skip

    def __init__(self, index: GraphIndex) -> None:
        super().__init__(index)
        self._show = GraphSearch(index, "communities")

    def use(self, args: Mapping[str, Any]) -> ToolResult:
        beam = args.get("beam", BEAM) or math.inf
        search = self.index.community_search
        return self._listed(search.search(args["query"], args.get("k", K), beam), self._show)


class HybridTool(GraphTool):
    """``graph_search``: facts and passages together (GraphRAG-R1), ranked by PageRank from the
    entities the query names, or by likeness if it names none."""

    spec = _spec(
        "graph_search", "Facts and passages on a query, from the graph around what it names.",
        ("query",), query={"type": "string", "minLength": 1}, k=_K,
    )  # fmt: skip

    def __init__(self, index: GraphIndex) -> None:
        super().__init__(index)
        self._show = GraphSearch(index, "ppr", passages=True)

    def use(self, args: Mapping[str, Any]) -> ToolResult:
        query, k = args["query"], args.get("k", K)
        return self._listed(self.index.ppr(query, k) or self.index.similar(query, k), self._show)


GRAPH_TOOLS: Mapping[str, type[GraphTool]] = {
    tool.spec.name: tool
    for tool in (
        FactsTool, NeighborsTool, PathTool, RankTool, CommunitySearchTool, HybridTool,
    )
}  # fmt: skip


def make_tool(name: str, corpus: Corpus, world: World | None) -> GraphTool:
    """A tool by name; ``EngineError`` for a corpus without a graph."""
    return GRAPH_TOOLS[name](graph_index(corpus, world))
