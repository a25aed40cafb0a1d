"""A symbolic solver: the reasoning graph as a constraint query over the world.

It reads only what a question gives away (given nodes, types, edges, operation), never the recorded
solutions, enumerates every assignment of the unknown nodes, and so proves whether an answer exists
and is unique.

Operations: ``lookup`` (the answer node's value); ``count:n``; ``argmin:c=k,…`` and ``argmax:…``
(the choice c whose key k is least or greatest, over all solutions); ``equal:a,b`` (yes or no);
``join:a,b`` ("X and Y"); ``difference:a,b`` (of two years or counts); ``sum:m=v`` (of the values v
of all solutions m); ``set:m`` (all solutions m, "X; Y").

Relations that follow by the schema's rules are followed like those that pages state.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import TaskError, unknown
from ..types import GraphEdge, ReasoningGraph
from ..worlds.world import Fact, World
from .context import Lookup, Surfaces

Binding = dict[str, int]
MOST_SOLUTIONS = 100_000
OPERATIONS = ("lookup", "count", "argmin", "argmax", "equal", "join", "difference", "sum", "set")


class Solver:
    """Solves graphs over one world; keep it to share the look-up tables between graphs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._lookup = Lookup(world)
        self._names = Surfaces(world)
        self._entities: dict[str, int] = {}
        self._values: dict[int, dict[str, int]] = {}
        self._implied: Solver | None = None
        self._rules = {rule.name for rule in world.schema.rules} - {
            p.name for p in world.schema.properties
        }

    def solve(self, graph: ReasoningGraph) -> tuple[str, ...]:
        """Every answer the graph allows, canonical texts in ascending order: one means unique,
        none means unanswerable. Raises ``TaskError`` for a graph that cannot be read."""
        operation, _, arguments = graph.operation.partition(":")
        if operation not in OPERATIONS:
            raise TaskError(unknown("operation", operation, OPERATIONS))
        if any(edge.property in self._rules for edge in graph.edges):
            from ..worlds.rules import derived

            self._implied = self._implied or Solver(derived(self.world))
            return self._implied.solve(graph)
        if operation in ("argmin", "argmax"):
            return self._extreme(graph, arguments, least=operation == "argmin")
        if operation == "sum":
            return self._sum(graph, arguments)
        nodes = arguments.split(",") if arguments else [graph.answer]
        rows = {
            tuple(binding[self._node(graph, n)] for n in nodes)
            for binding in self.solutions(graph, graph.edges)
        }
        if operation == "count":
            return (str(len(rows)),) if rows else ()
        if operation == "equal":
            return tuple(sorted({"yes" if len(set(row)) == 1 else "no" for row in rows}))
        if operation == "difference":
            return tuple(sorted({str(abs(row[0] - row[1])) for row in rows}))
        texts = {
            tuple(self._text(graph, n, v) for n, v in zip(nodes, row, strict=True)) for row in rows
        }
        if operation == "set":
            from ..scoring.sets import set_text

            return (set_text([text for (text,) in texts]),) if texts else ()
        return tuple(sorted(" and ".join(row) for row in texts))

    def solutions(self, graph: ReasoningGraph, edges: tuple[GraphEdge, ...]) -> list[Binding]:
        """Every assignment of the nodes that satisfies the edges; ``TaskError`` beyond
        ``MOST_SOLUTIONS`` or for a given node that names nothing."""
        start: Binding = {}
        types = {n.id: n.type for n in graph.nodes}
        for node in graph.nodes:
            if node.given:
                value = self._read(node.type, node.value)
                if value is None:
                    return []
                start[node.id] = value
        bindings: list[Binding] = []
        distinct = {(e.subject, e.property, e.object): e for e in edges}  # groups repeat an edge
        for binding in self._extend(start, list(distinct.values()), types):
            bindings.append(binding)
            if len(bindings) > MOST_SOLUTIONS:
                raise TaskError(
                    f"a graph has more than {MOST_SOLUTIONS} solutions; give more nodes"
                )
        return bindings

    def _extend(
        self, binding: Binding, edges: list[GraphEdge], types: dict[str, str]
    ) -> Iterator[Binding]:
        if not edges:
            yield dict(binding)
            return
        chosen = min(range(len(edges)), key=lambda i: (self._matches(edges[i], binding), i))
        edge = edges[chosen]
        rest = edges[:chosen] + edges[chosen + 1 :]
        for fact in self._facts(edge, binding):
            if not self._typed(types[edge.subject], fact.subject):
                continue
            relation = self.world.schema.properties[fact.property].is_relation
            if relation and not self._typed(types[edge.object], fact.object):
                continue
            bound = {**binding, edge.subject: fact.subject, edge.object: fact.object}
            yield from self._extend(bound, rest, types)

    def _matches(self, edge: GraphEdge, binding: Binding) -> int:
        """Count the facts that could fill an edge; the scarcest edge is followed first."""
        if edge.subject in binding or edge.object in binding:
            return len(self._facts(edge, binding))
        return len(self._lookup.facts_with(self._property(edge.property)))

    def _facts(self, edge: GraphEdge, binding: Binding) -> list[Fact]:
        prop = self._property(edge.property)
        subject, obj = binding.get(edge.subject), binding.get(edge.object)
        if subject is not None:
            facts = self._lookup.objects(subject, prop)
            return facts if obj is None else [f for f in facts if f.object == obj]
        if obj is not None:
            return self._lookup.subjects(prop, obj)
        return [self.world.fact(int(i)) for i in self._lookup.facts_with(prop)]

    def _keyed(
        self, graph: ReasoningGraph, arguments: str
    ) -> tuple[list[str], list[str], list[Binding]]:
        """Choices, keys and solutions of ``choice=key,…``; no solutions where a choice has no
        key."""
        pairs = [tuple(pair.split("=")) for pair in arguments.split(",")]
        if not all(len(p) == 2 for p in pairs):
            raise TaskError(f"this operation takes choice=key pairs, got {arguments!r}")
        choices = [self._node(graph, p[0]) for p in pairs]
        keys = [self._node(graph, p[1]) for p in pairs]
        full = self.solutions(graph, graph.edges)
        open_edges = tuple(e for e in graph.edges if e.object not in keys)
        everyone = [tuple(b.get(c, -1) for c in choices) for b in self.solutions(graph, open_edges)]
        known = {tuple(b[c] for c in choices) for b in full}
        if any(row not in known for row in everyone if -1 not in row):
            return choices, keys, []
        return choices, keys, full

    def _sum(self, graph: ReasoningGraph, arguments: str) -> tuple[str, ...]:
        (member, *_), (value, *_), full = self._keyed(graph, arguments)
        summed = {(binding[member], binding[value]) for binding in full}
        return (str(sum(value for _, value in summed)),) if summed else ()

    def _extreme(self, graph: ReasoningGraph, arguments: str, *, least: bool) -> tuple[str, ...]:
        choices, keys, full = self._keyed(graph, arguments)
        if not full:
            return ()  # nobody, or a competitor without a key: the extreme cannot be known
        ranked = {(b[k], b[c], c) for b in full for c, k in zip(choices, keys, strict=True)}
        values = [value for value, _, _ in ranked]
        best = min(values) if least else max(values)
        winners = {self._text(graph, c, who) for value, who, c in ranked if value == best}
        return tuple(sorted(winners))

    def _node(self, graph: ReasoningGraph, node: str) -> str:
        if not any(n.id == node for n in graph.nodes):
            raise TaskError(unknown("node", node, [n.id for n in graph.nodes]))
        return node

    def _property(self, name: str) -> int:
        try:
            return self.world.schema.property_index(name)
        except KeyError:
            known = [p.name for p in self.world.schema.properties]
            raise TaskError(unknown("property", name, known)) from None

    def _typed(self, kind: str, entity: int) -> bool:
        return self.world.schema.types[int(self.world.type_of[entity])].name == kind

    def _text(self, graph: ReasoningGraph, node: str, value: int) -> str:
        kind = next(n.type for n in graph.nodes if n.id == node)
        if any(t.name == kind for t in self.world.schema.types):
            return self.world.titles[value]
        return self._names.text(self._property(kind), value)

    def _read(self, kind: str, text: str) -> int | None:
        """The entity or raw value a given node's text stands for."""
        if any(t.name == kind for t in self.world.schema.types):
            if not self._entities:
                self._entities = {title: i for i, title in enumerate(self.world.titles)}
            return self._entities.get(text)
        prop = self._property(kind)
        if prop not in self._values:
            values = self._lookup.values_of(prop)
            self._values[prop] = {self._names.text(prop, v): v for v in values}
        return self._values[prop].get(text)


def solve(graph: ReasoningGraph, world: World) -> tuple[str, ...]:
    """``Solver(world).solve(graph)``: all answers; exactly one for a well-posed question."""
    return Solver(world).solve(graph)
