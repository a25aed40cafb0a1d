"""A symbolic solver: the reasoning graph as a constraint query over the world.

It reads only what a question gives away (given nodes, types, edges, operation), never the recorded
solutions, enumerates every assignment of the unknown nodes, and so proves whether an answer exists
and is unique. Relations that follow by the schema's rules are followed like those that pages state.

Operations stand beside the families that ask for them (:func:`searchgym.tasks.draft.operation`) and
name nodes: ``lookup`` (the answer node's value); ``count:n``; ``argmin:c=k,…`` and ``argmax:…``
(the choice c whose key k is least or greatest, over all solutions); ``equal:a,b`` (yes or no);
``join:a,b`` ("X and Y"); ``difference:a,b`` (of two years or counts); ``sum:m=v`` (of the values v
of all solutions m); ``set:m`` (all solutions m, "X; Y");
``days:a,b``, ``percent:a,b`` and ``mean:m=v`` (days between two dates, a as whole percent of b, the
mean of the values v of all solutions m as a whole number);
``between:a,v,l,h,…`` (the a for which each value v lies between the given l and h).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import TaskError, unknown
from ..objects import load_known
from ..types import GraphEdge, ReasoningGraph
from ..worlds.world import Fact, World
from .context import Lookup, Surfaces
from .draft import OPERATIONS
from .families import FAMILIES

Binding = dict[str, int]
MOST_SOLUTIONS = 100_000


class Solver:
    """Solves graphs over one world; keep it to share the look-up tables between graphs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._lookup = Lookup(world)
        self._names = Surfaces(world)
        self._types = {t.name for t in world.schema.types}
        self._entities: dict[str, int] = {}
        self._values: dict[int, dict[str, int]] = {}
        self._implied: Solver | None = None
        self._rules = {rule.name for rule in world.schema.rules} - {
            p.name for p in world.schema.properties
        }

    def solve(self, graph: ReasoningGraph) -> tuple[str, ...]:
        """Every answer the graph allows, canonical texts in ascending order: one means unique,
        none means unanswerable. Raises ``TaskError`` for a graph that cannot be read."""
        name, _, arguments = graph.operation.partition(":")
        if name not in OPERATIONS:  # they stand beside the families that ask for them
            for where in FAMILIES.values():
                load_known(where)
        if name not in OPERATIONS:
            raise TaskError(unknown("operation", name, OPERATIONS))
        if any(edge.property in self._rules for edge in graph.edges):
            from ..worlds.rules import derived

            self._implied = self._implied or Solver(derived(self.world))
            return self._implied.solve(graph)
        nodes = re.split("[,=]", arguments) if arguments else [graph.answer]
        types = {n.id: n.type for n in graph.nodes}
        for node in nodes:
            if node not in types:
                raise TaskError(unknown("node", node, types))
        rows = {tuple(b[n] for n in nodes) for b in self.solutions(graph, graph.edges)}
        if "=" in arguments and not self._have_keys(graph, nodes[::2], nodes[1::2], rows):
            return ()

        def text(place: int, value: int) -> str:
            return self._text(types[nodes[place]], value)

        try:
            return tuple(sorted(set(OPERATIONS[name](rows, text))))
        except (IndexError, ValueError):
            raise TaskError(f"the operation {name!r} does not take {arguments!r}") from None

    def _have_keys(
        self, graph: ReasoningGraph, choices: list[str], keys: list[str], rows: set[tuple[int, ...]]
    ) -> bool:
        open_edges = tuple(e for e in graph.edges if e.object not in keys)
        everyone = {tuple(b.get(c, -1) for c in choices) for b in self.solutions(graph, open_edges)}
        known = {row[::2] for row in rows}
        return all(row in known for row in everyone if -1 not in row)

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

    def _property(self, name: str) -> int:
        try:
            return self.world.schema.property_index(name)
        except KeyError:
            known = [p.name for p in self.world.schema.properties]
            raise TaskError(unknown("property", name, known)) from None

    def _typed(self, kind: str, entity: int) -> bool:
        return self.world.schema.types[int(self.world.type_of[entity])].name == kind

    def _text(self, kind: str, value: int) -> str:
        if kind in self._types:
            return self.world.titles[value]
        return self._names.text(self._property(kind), value)

    def _read(self, kind: str, text: str) -> int | None:
        if kind in self._types:
            if not self._entities:
                self._entities = {title: i for i, title in enumerate(self.world.titles)}
            return self._entities.get(text)
        prop = self._property(kind)
        if prop not in self._values:
            values = self._lookup.values_of(prop)
            self._values[prop] = {self._names.text(prop, v): v for v in values}
        return self._values[prop].get(text)
