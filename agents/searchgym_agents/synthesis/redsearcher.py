"""REDSearcher's tasks by treewidth and dispersion (arXiv 2602.14234).

The core of a question is a path of four entities (treewidth 1), a ring of four (2) or a tetrahedron
(3; its edges may be paths of facts), found among a world's facts; facts that hang on it single out
the answer, chosen by its place: the entity of the core that others mention least. ``meta["core"]``
counts the core's constraints, ``meta["distractors"]`` lists, for each constraint, the page of
something that meets all others and not this one. Thresholds are not published; these are ours.
"""

from __future__ import annotations

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context, pick
from searchgym.tasks.draft import Draft, family, treewidth
from searchgym.worlds.world import Fact

from .constraints import (
    ConstraintGraph,
    Node,
    answers,
    any_answer,
    clues,
    draft,
    is_unique,
    minimal,
    nearby,
    other_end,
    rarer,
)

SHAPES = {1: "path", 2: "ring", 3: "tetrahedron"}


@register("task family:redsearcher")
@family()
def redsearcher(
    ctx: Context,
    rng: np.random.Generator,
    turn: int,
    widths: tuple[int, ...] = (1, 2, 3),
    dispersion: int = 2,
    distractors: float = 0.5,
    pendants: int = 3,
) -> Draft | None:
    """A question whose constraints form a path, a ring or a tetrahedron, by turns.

    Args:
        widths: Treewidths that take turns, 1 to 3.
        dispersion: Least number of pages that together state all facts.
        distractors: Least share of the constraints with a distractor.
        pendants: Most facts added to the core.
    """
    width = widths[turn % len(widths)]
    core = _core(ctx, rng, width)
    if core is None:
        return None
    members = dict.fromkeys(e for f in core for e in (f.subject, f.object))
    far = [e for e in members if width > 1 or sum(e in (f.subject, f.object) for f in core) == 1]
    answer = rarer(ctx, *far)  # of a path an end, and the other end is named
    graph = ConstraintGraph((Node(answer),))
    for fact in core:
        graph = graph.with_fact(ctx, fact, given=False)
    hub = max(far, key=lambda e: (e != answer, ctx.mentions(e), -e))
    if ctx.names.given(hub):
        graph = graph.changed(graph.place(hub), given=True)
    for _ in range(pendants):
        if is_unique(ctx, graph):
            break
        at = pick(rng, list(members))
        more = [
            f
            for f in clues(ctx, at)
            if (o := other_end(ctx, f, at)) not in members and (o < 0 or ctx.names.given(o))
        ]
        if more:
            graph = graph.with_fact(ctx, pick(rng, more))
    if not is_unique(ctx, graph):
        return None
    graph = minimal(ctx, graph, core if width > 1 else ())
    if width == 1 and max(graph.distances().values()) < 3:
        return None
    near = [answers(ctx, graph.without(e)) - {answer} for e in graph.edges]
    if sum(map(bool, near)) < distractors * len(near):
        return None
    pages = [ctx.corpus[int(ctx.corpus.page_of[min(n)])].id if n else "" for n in near]
    made = draft(
        ctx, "redsearcher", graph, shape=SHAPES[width],
        meta={"core": len(core), "distractors": pages},
    )  # fmt: skip
    measured = made and made.difficulty
    fits = measured and measured.treewidth == width and measured.dispersion >= dispersion
    return made if fits else None


def _core(ctx: Context, rng: np.random.Generator, width: int) -> list[Fact] | None:
    """Facts that join random entities as the width asks."""
    first = any_answer(ctx, rng)
    if width == 1:
        path, facts = [first], []
        for _ in range(3):
            onward = {e: f for e, f in nearby(ctx, path[-1]).items() if e not in path}
            if not onward:
                return None
            path.append(pick(rng, [*onward]))
            facts.append(onward[path[-1]])
        return facts
    if width == 3:
        return _tetrahedron(ctx, rng, first)
    near = nearby(ctx, first)
    if len(near) < 2:
        return None
    second, third = (list(near)[i] for i in rng.permutation(len(near))[:2].tolist())
    shared = [e for e in nearby(ctx, second) if e in nearby(ctx, third) and e != first]
    opposite = [e for e in shared if e not in near] or shared
    if not opposite:
        return None
    last = pick(rng, opposite)
    sides = [(first, second), (first, third), (second, last), (third, last)]
    return [nearby(ctx, a)[b] for a, b in sides]


def _tetrahedron(
    ctx: Context, rng: np.random.Generator, first: int, size: int = 24, most: int = 12
) -> list[Fact] | None:
    """Facts around an entity that no smaller set of them keeps at treewidth 3: four entities that
    are all joined, by a fact or, where the world has no such four, by a path of facts."""
    region = [first]
    for here in region:
        options = [*nearby(ctx, here)]
        some = [options[i] for i in rng.permutation(len(options))[:6].tolist()]
        region += [e for e in some if e not in region][: size - len(region)]
    inside = frozenset(region)
    facts = {
        (str(min(a, b)), str(max(a, b))): nearby(ctx, a)[b]
        for a in region
        for b in inside & nearby(ctx, a).keys()
    }
    if treewidth(facts) < 3:
        return None
    pairs = [*facts]
    for i in rng.permutation(len(pairs)).tolist():
        rest = [pair for pair in facts if pair != pairs[i]]
        if treewidth(rest) >= 3:
            del facts[pairs[i]]
    return [*facts.values()] if len(facts) <= most else None
