"""Constraint graphs: entities and values joined by facts, some of them named, one asked for.

What the synthesis systems share: the candidates that a graph leaves, constraints that single an
entity out, dropping what is not needed, and a graph as a task in words. Candidates are found by
propagating sets along the edges (exact in trees) and, in graphs with cycles, by trying each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from searchgym.tasks.context import Context, PathStep, backward, both_sides, forward
from searchgym.tasks.draft import Draft, Sketch
from searchgym.worlds.world import Fact

from .questions import ask

MOST_FACTS = 5
"""Facts about an entity that are looked at per relation; a country has thousands."""


class Node(NamedTuple):
    """An entity or a value of a constraint graph."""

    value: int
    """An entity's number, or an attribute's raw value."""
    prop: int = -1
    """The attribute of a value; -1 for an entity."""
    given: bool = False
    """True if the question names it."""
    bounds: tuple[int, int] | None = None
    """Raw values of the same attribute between which the question says that a value lies."""


class Edge(NamedTuple):
    """A fact between the nodes at two places."""

    subject: int
    object: int
    fact: Fact

    def other(self, place: int) -> int:
        return self.object if place == self.subject else self.subject


@dataclass(frozen=True)
class ConstraintGraph:
    """Nodes and the facts that join them; the first node is the answer."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

    @property
    def answer(self) -> int:
        return self.nodes[0].value

    @property
    def entities(self) -> frozenset[int]:
        return frozenset(n.value for n in self.nodes if n.prop < 0)

    def place(self, value: int, prop: int = -1) -> int:
        """Place of an entity or value; -1 if it is not there."""
        found = (i for i, n in enumerate(self.nodes) if n[:2] == (value, prop))
        return next(found, -1)

    def with_fact(self, ctx: Context, fact: Fact, *, given: bool = True) -> ConstraintGraph:
        """The graph and a fact; an end that is new to it is named if ``given``."""
        prop = -1 if ctx.prop(fact.property).is_relation else fact.property
        nodes, ends = list(self.nodes), []
        for value, kind in ((fact.subject, -1), (fact.object, prop)):
            if (where := self.place(value, kind)) < 0:
                where = len(nodes)
                nodes.append(Node(value, kind, given))
            ends.append(where)
        edge = Edge(ends[0], ends[1], fact)
        return ConstraintGraph(
            tuple(nodes), self.edges if edge in self.edges else (*self.edges, edge)
        )

    def changed(self, place: int, **changes: Any) -> ConstraintGraph:
        """The graph with other properties of one node."""
        nodes = list(self.nodes)
        nodes[place] = nodes[place]._replace(**changes)
        return replace(self, nodes=tuple(nodes))

    def without(self, edge: Edge) -> ConstraintGraph:
        """The graph without a constraint, and without what only that joined to the answer."""
        left = [e for e in self.edges if e != edge]
        reached = [*self.distances(left)]
        where = {old: new for new, old in enumerate(sorted(reached))}
        return ConstraintGraph(
            tuple(self.nodes[old] for old in where),
            tuple(
                Edge(where[e.subject], where[e.object], e.fact) for e in left if e.subject in where
            ),
        )

    def distances(self, edges: Sequence[Edge] | None = None) -> dict[int, int]:
        """Place → number of facts between it and the answer, nearest first."""
        far, queue = {0: 0}, [0]
        for here in queue:
            for edge in self.edges if edges is None else edges:
                if here in edge[:2] and (other := edge.other(here)) not in far:
                    far[other] = far[here] + 1
                    queue.append(other)
        return far

    def around(self, place: int) -> list[Edge]:
        return [edge for edge in self.edges if place in edge[:2]]

    @property
    def is_tree(self) -> bool:
        return len(self.edges) == len(self.nodes) - 1


def answers(ctx: Context, graph: ConstraintGraph, most: int = 2) -> frozenset[int]:
    """Answers that the constraints allow: all in a tree, else no more than ``most``. Without a
    named node everything of the answer's type is one."""
    if not any(n.given or n.bounds for n in graph.nodes) or not graph.edges:
        return frozenset(ctx.of_type[int(ctx.world.type_of[graph.answer])])
    domains = _domains(ctx, graph)
    if graph.is_tree:
        return frozenset(domains[0])
    order = [*graph.distances()]
    found: set[int] = set()
    for candidate in sorted(domains[0]):
        if len(found) < most and _holds(ctx, graph, domains, order[1:], {0: candidate}):
            found.add(candidate)
    return frozenset(found)


def _domains(ctx: Context, graph: ConstraintGraph) -> list[set[int]]:
    known: dict[int, set[int]] = {}
    for i, node in enumerate(graph.nodes):
        if node.bounds:
            low, high = node.bounds
            known[i] = {v for v in ctx.lookup.values_of(node.prop) if low <= v <= high}
        elif node.given:
            known[i] = {node.value}
    due = {(edge, place) for place in known for edge in graph.around(place)}
    while due:  # from the narrowest: what is joined to a country is thousands
        edge, near = min(due, key=lambda way: (len(known[way[1]]), way))
        due.remove((edge, near))
        far = edge.other(near)
        if far in known and len(known[far]) < len(known[near]):
            after = {v for v in known[far] if _image(ctx, edge, v, far) & known[near]}
        else:
            after = set().union(*(_image(ctx, edge, v, near) for v in known[near]))
            after = after & known[far] if far in known else after
        if far not in known or len(after) < len(known[far]):
            known[far] = after
            due |= {(e, far) for e in graph.around(far)}
    return [known[i] for i in range(len(graph.nodes))]


def _image(ctx: Context, edge: Edge, value: int, place: int) -> frozenset[int]:
    """Values that an edge leads to from a value of the node at one of its ends."""
    return led_to(ctx, edge.fact.property, value, place == edge.subject)


def led_to(ctx: Context, prop: int, value: int, from_subject: bool) -> frozenset[int]:
    """Values that a property leads to from a subject, or from an object back to its subjects."""
    kept = ctx.memo.setdefault("led to", {})
    if (prop, value, from_subject) not in kept:
        look = ctx.lookup
        kept[prop, value, from_subject] = frozenset(
            [f.object for f in look.objects(value, prop)]
            if from_subject
            else [f.subject for f in look.subjects(prop, value)]
        )
    found: frozenset[int] = kept[prop, value, from_subject]
    return found


def _holds(
    ctx: Context,
    graph: ConstraintGraph,
    domains: Sequence[set[int]],
    order: Sequence[int],
    bound: dict[int, int],
) -> bool:
    if not order:
        return True
    here = order[0]
    options: set[int] | frozenset[int] = domains[here]
    for edge in graph.around(here):
        if (other := edge.other(here)) in bound:
            options = options & _image(ctx, edge, bound[other], other)
    return any(
        _holds(ctx, graph, domains, order[1:], {**bound, here: value}) for value in sorted(options)
    )


def is_unique(ctx: Context, graph: ConstraintGraph) -> bool:
    """Check whether the answer is the only one."""
    return answers(ctx, graph) == {graph.answer}


def minimal(ctx: Context, graph: ConstraintGraph, fixed: Collection[Fact] = ()) -> ConstraintGraph:
    """A graph of one answer without the constraints that are not needed, the last first; those in
    ``fixed`` stay. Fewer constraints never leave fewer answers, so one pass is enough."""
    for edge in reversed(graph.edges):
        found = [e for e in graph.edges if e.fact == edge.fact]  # places shift as nodes go
        if found and edge.fact not in fixed and is_unique(ctx, less := graph.without(found[0])):
            graph = less
    return graph


def clues(ctx: Context, entity: int) -> tuple[Fact, ...]:
    """Facts about an entity that pages state and questions can put into words, from both ends."""
    kept = ctx.memo.setdefault("clues", {})
    if entity not in kept:
        facts = [
            fact
            for prop, out in ctx.lookup.out(entity).items()
            if both_sides(ctx.prop(prop).inverse)
            for fact in out
            if not ctx.prop(prop).is_relation or ctx.names.clear(fact.object)
        ]
        for prop, into in ctx.lookup.into(entity).items():
            if both_sides(ctx.prop(prop).noun) and not ctx.prop(prop).symmetric:
                spread = into[:: max(1, len(into) // MOST_FACTS)][:MOST_FACTS]
                facts += [fact for fact in spread if ctx.names.clear(fact.subject)]
        kept[entity] = tuple(f for f in facts if ctx.stated(f.id) and f.subject != f.object)
    found: tuple[Fact, ...] = kept[entity]
    return found


def other_end(ctx: Context, fact: Fact, entity: int) -> int:
    """The entity at a fact's other end; -1 for a value."""
    if fact.subject != entity:
        return fact.subject
    return fact.object if ctx.prop(fact.property).is_relation else -1


def nearby(ctx: Context, entity: int) -> dict[int, Fact]:
    """Entities that a fact of :func:`clues` joins to one, with the first such fact."""
    kept: dict[int, dict[int, Fact]] = ctx.memo.setdefault("nearby", {})
    if entity not in kept:
        joined = kept[entity] = {}
        for fact in clues(ctx, entity):
            if (other := other_end(ctx, fact, entity)) >= 0:
                joined.setdefault(other, fact)
    return kept[entity]


def any_answer(ctx: Context, rng: np.random.Generator) -> int:
    """A random entity that two facts or more are about, its type first."""
    if "facts about" not in ctx.memo:
        world, n = ctx.world, ctx.world.n_entities
        ends = (world.subject_of, world.object_of[world.inverse_order])
        ctx.memo["facts about"] = sum(np.bincount(end, minlength=n) for end in ends)
    for _ in range(20):
        if ctx.memo["facts about"][entity := ctx.any_entity(rng)] > 1:
            break
    return entity


def rarer(ctx: Context, *entities: int) -> int:
    """The one that the fewest pages mention."""
    return min(entities, key=lambda e: (ctx.mentions(e), e))


def left_by(ctx: Context, fact: Fact, entity: int) -> frozenset[int]:
    """Candidates for an entity that one fact about it leaves."""
    if fact.subject == entity:
        return led_to(ctx, fact.property, fact.object, False)
    return led_to(ctx, fact.property, fact.subject, True)


def determine(
    ctx: Context,
    rng: np.random.Generator,
    entity: int,
    taken: Collection[int] = (),
    *,
    least: int = 2,
    most: int = 4,
) -> list[Fact] | None:
    """Facts that only together single an entity out, each needed; None if none are found.

    Args:
        taken: Entities that must not be named.
        least: Candidates that each fact by itself must leave.
        most: Largest number of facts.
    """
    options = clues(ctx, entity)
    chosen: list[Fact] = []
    left: frozenset[int] | None = None
    for fact in (options[i] for i in rng.permutation(len(options)).tolist()):
        other = other_end(ctx, fact, entity)
        alone = left_by(ctx, fact, entity)
        if other in taken or len(alone) < least or (other >= 0 and not ctx.names.given(other)):
            continue
        after = alone if left is None else left & alone
        if left is None or len(after) < len(left):
            chosen.append(fact)
            left = after
        if left == {entity} or len(chosen) == most:
            break
    if left != {entity}:
        return None
    for fact in list(chosen):
        rest = [left_by(ctx, f, entity) for f in chosen if f != fact]
        if rest and frozenset.intersection(*rest) == {entity}:
            chosen.remove(fact)
    return chosen


def draft(
    ctx: Context,
    family: str,
    graph: ConstraintGraph,
    *,
    shape: str,
    hops: int | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Draft | None:
    """The task that asks for a graph's answer; None where a name is ambiguous or gives another
    away, or of something that is not named nothing else is known."""
    if not ctx.names.clear(graph.answer):
        return None
    for place, node in enumerate(graph.nodes):
        if node.prop < 0 and node.given and ctx.names.given(node.value) is None:
            return None
        if place and not node.given and not node.bounds and len(graph.around(place)) < 2:
            return None
    sketch = Sketch(ctx)
    ids: list[str] = []
    between: list[str] = []
    for node in graph.nodes:
        if node.prop < 0:
            ids.append(sketch.entity(node.value, given=node.given))
        else:
            ids.append(sketch.value(node.prop, node.value, given=node.given))
            if node.bounds:
                ends = [sketch.value(node.prop, end, given=True) for end in node.bounds]
                between += [ids[-1], *ends]
    reading = _reading(ctx, graph)
    for edge, step, query, page in reading:
        near, far = (edge.object, edge.subject) if step.inverse else (edge.subject, edge.object)
        sketch.edge(ids[near], step, ids[far], query, page)
    if not reading or not sketch.hidden:
        return None
    away = graph.distances()
    named = [away[i] for i, n in enumerate(graph.nodes) if n.given or n.bounds]
    return sketch.finish(
        family, shape=shape, answers=ctx.names.entity_answers(graph.answer), answer=ids[0],
        hops=max(named) if hops is None else hops, branches=len(named),
        operation=f"between:{','.join([ids[0], *between])}" if between else "lookup",
        render=lambda voice: ask(ctx, voice, graph), meta=meta,
    )  # fmt: skip


def _reading(ctx: Context, graph: ConstraintGraph) -> list[tuple[Edge, PathStep, str, int]]:
    """The facts in an order in which they can be read, each with its query and page: pages of what
    is known come first, then that of a subject, described by all that is known of it."""
    known = {i for i, n in enumerate(graph.nodes) if n.given}
    left = list(graph.edges)
    read: list[tuple[Edge, PathStep, str, int]] = []
    while left:
        told_on: dict[int, list[Edge]] = {}  # place of a node → facts on its page
        for edge in left:
            for place in edge[:2]:
                node = graph.nodes[place]
                page = int(ctx.corpus.page_of[node.value]) if node.prop < 0 else -1
                if page in ctx.passages(edge.fact.id):
                    told_on.setdefault(place, []).append(edge)
        if not told_on:
            return []
        at = max(
            told_on,
            key=lambda p: (p in known, sum(e.other(p) in known for e in told_on[p])),
        )
        entity, told = graph.nodes[at].value, told_on[at]
        words = [ctx.names.title(entity) if at in known else ctx.noun(entity)]
        for edge in told:
            label = ctx.label(edge.fact.property)
            if at in known and edge.object == at:
                words.append(label)
            elif at not in known and edge.subject == at and edge.object in known:
                words.append(f"{label} {ctx.names.text(edge.fact.property, edge.fact.object)}")
        query = " ".join(dict.fromkeys(words))
        for edge in told:
            inverse = edge.subject not in known and edge.object in known
            step = (backward if inverse else forward)(edge.fact)
            read.append((edge, step, query, int(ctx.corpus.page_of[entity])))
        known.update(place for edge in told for place in edge[:2])
        left = [e for e in left if e not in told]
    return read
