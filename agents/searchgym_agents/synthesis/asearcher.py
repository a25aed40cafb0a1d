"""ASearcher's data agent (arXiv 2508.07976): a simple question that edits make harder.

A question about one or two facts is edited up to sixteen times. ``inject`` replaces a name by a
fact that only its bearer meets, ``brainstorm`` adds a statement, ``fuzz`` makes a detail vague: a
value lies between two others, a name becomes some member of something larger. After each edit the
solver must still find one answer, or the edit is rolled back; ``meta["log"]`` tells them all.
Statements that turn out not to be needed are dropped; the hops are the injections and one.
"""

from __future__ import annotations

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context, pick
from searchgym.tasks.draft import Draft, family
from searchgym.worlds.world import Fact

from .constraints import (
    ConstraintGraph,
    Node,
    any_answer,
    clues,
    determine,
    draft,
    is_unique,
    left_by,
    minimal,
    other_end,
)

BROADER = 5
"""What a name's vague description hangs on is mentioned by so many times as many pages (ours)."""


@register("task family:asearcher")
@family()
def asearcher(
    ctx: Context,
    rng: np.random.Generator,
    turn: int,
    turns: int = 16,
    injections: tuple[int, ...] = (1, 2, 3),
    width: int = 10,
) -> Draft | None:
    """A question that was made harder step by step.

    Args:
        turns: Most edits, as released.
        injections: Numbers of injections that take turns (ours).
        width: Most distinct values of a world on either side of a fuzzed one (ours).
    """
    answer = any_answer(ctx, rng)
    graph = ConstraintGraph((Node(answer),))
    for fact in determine(ctx, rng, answer, least=1, most=2) or ():
        graph = graph.with_fact(ctx, fact)
    if len(graph.entities) < 2:
        return None
    wanted = injections[turn % len(injections)]
    log: list[list[object]] = []
    injected: list[Fact] = []
    fuzzed = 0
    for _ in range(turns):
        if len(injected) == wanted and fuzzed:
            break
        edits = ["brainstorm", "fuzz"] + ["inject"] * 2 * (len(injected) < wanted)
        edit = pick(rng, edits)
        after = {"inject": inject, "fuzz": fuzz, "brainstorm": brainstorm}[edit](
            ctx, rng, graph, width
        )
        kept = after is not None and is_unique(ctx, after)
        log.append([edit, kept])
        if after is None or not kept:
            continue
        if edit == "inject":
            injected.append(after.edges[-1].fact)
        fuzzed += edit == "fuzz"
        graph = after
    graph = minimal(ctx, graph)
    left = {e.fact for e in graph.edges}
    if len(injected) != wanted or not left.issuperset(injected):
        return None
    shape = "fuzzed" if fuzzed else "injected"
    return draft(ctx, "asearcher", graph, shape=shape, hops=wanted + 1, meta={"log": log})


def _definite(ctx: Context, entity: int, taken: frozenset[int] | tuple[()]) -> list[Fact]:
    """Facts that only one entity meets, about something else that can be named."""
    return [
        fact
        for fact in clues(ctx, entity)
        if (other := other_end(ctx, fact, entity)) >= 0
        and other not in taken
        and ctx.names.given(other)
        and left_by(ctx, fact, entity) == {entity}
    ]


def inject(
    ctx: Context, rng: np.random.Generator, graph: ConstraintGraph, width: int
) -> ConstraintGraph | None:
    """Replace the name farthest from the answer by a fact that only its bearer meets."""
    far = graph.distances()
    named = [i for i, n in enumerate(graph.nodes) if n.given and n.prop < 0]
    place = max(named, key=lambda i: far[i], default=0)
    options = _definite(ctx, graph.nodes[place].value, graph.entities) if place else []
    return graph.changed(place, given=False).with_fact(ctx, pick(rng, options)) if options else None


def brainstorm(
    ctx: Context, rng: np.random.Generator, graph: ConstraintGraph, width: int
) -> ConstraintGraph | None:
    """Add a true statement about something that is not named."""
    hidden = [n.value for n in graph.nodes if n.prop < 0 and not n.given]
    entity = pick(rng, hidden)
    options = [
        f
        for f in clues(ctx, entity)
        if (o := other_end(ctx, f, entity)) not in graph.entities and (o < 0 or ctx.names.given(o))
    ]
    return graph.with_fact(ctx, pick(rng, options)) if options else None


def fuzz(
    ctx: Context, rng: np.random.Generator, graph: ConstraintGraph, width: int
) -> ConstraintGraph | None:
    """Make a value or a name vague."""
    exact = [i for i, n in enumerate(graph.nodes) if n.given]
    values = [i for i in exact if (p := graph.nodes[i].prop) >= 0 and not ctx.prop(p).categories]
    exact = values or [i for i in exact if graph.nodes[i].prop < 0]
    if not exact:
        return None
    place = pick(rng, exact)
    node = graph.nodes[place]
    if node.prop >= 0:
        values = ctx.lookup.values_of(node.prop)
        at = values.index(node.value)
        below, above = rng.integers(1, width + 1, 2).tolist()
        bounds = values[max(0, at - below)], values[min(len(values) - 1, at + above)]
        return graph.changed(place, given=False, bounds=bounds)
    broader = [
        f
        for f in clues(ctx, node.value)
        if f.subject == node.value
        and (o := other_end(ctx, f, node.value)) not in graph.entities
        and (o < 0 or ctx.names.given(o))
        and (o < 0 or ctx.mentions(o) >= BROADER * max(1, ctx.mentions(node.value)))
    ]
    return graph.changed(place, given=False).with_fact(ctx, pick(rng, broader)) if broader else None
