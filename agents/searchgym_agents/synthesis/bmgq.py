"""BMGQ's reverse questions (arXiv 2510.24151): oblique clues, each weak, together decisive.

Evidence grows around the answer, properties that are not there yet first. A clue is a branch of the
answer: a fact, or a fact about something that is itself only described. Each leaves at least
``least`` candidates, all together one, and none can be spared. Evidence that contradicts itself is
rejected: several objects of a property that in this world almost always has one. The paper's
thresholds are not published; these are ours.
"""

from __future__ import annotations

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context
from searchgym.tasks.draft import Draft, family
from searchgym.worlds.world import Fact

from .constraints import (
    ConstraintGraph,
    Edge,
    Node,
    answers,
    any_answer,
    determine,
    draft,
    is_unique,
    minimal,
)


@register("task family:bmgq")
@family()
def bmgq(
    ctx: Context,
    rng: np.random.Generator,
    turn: int,
    least: int = 3,
    most: int = 5,
    oblique: float = 0.5,
    functional: float = 0.95,
    dispersion: int = 2,
) -> Draft | None:
    """A question of weak clues.

    Args:
        least: Candidates that each clue leaves by itself.
        most: Clues of a question.
        oblique: Chance that a named entity of a clue is only described.
        functional: Share of a property's subjects with one object from which on two contradict.
        dispersion: Least number of pages that together state all clues.
    """
    answer = any_answer(ctx, rng)
    facts = determine(ctx, rng, answer, least=least, most=most)
    if facts is None or any(contradicted(ctx, fact, functional) for fact in facts):
        return None
    graph = ConstraintGraph((Node(answer),))
    for fact in facts:
        graph = graph.with_fact(ctx, fact)
    for place, node in enumerate(graph.nodes):
        if not place or node.prop >= 0 or rng.random() >= oblique:
            continue
        below = determine(ctx, rng, node.value, graph.entities, least=1, most=2)
        if below is None or contradicted(ctx, below[0], functional):
            continue
        blurred = graph.changed(place, given=False).with_fact(ctx, below[0])
        if is_unique(ctx, blurred) and blurred.is_tree:  # one fact may leave it vague
            graph = blurred
    graph = minimal(ctx, graph)
    if any(len(answers(ctx, alone(graph, e), least)) < least for e in graph.around(0)):
        return None
    shape = "oblique" if len(graph.edges) > len(graph.around(0)) else "direct"
    made = draft(ctx, "bmgq", graph, shape=shape)
    return made if made and made.difficulty.dispersion >= dispersion else None


def alone(graph: ConstraintGraph, clue: Edge) -> ConstraintGraph:
    """The graph of one clue: a fact about the answer, and what it hangs on."""
    for fact in [e.fact for e in graph.around(0) if e != clue]:
        graph = graph.without(next(e for e in graph.edges if e.fact == fact))
    return graph


def contradicted(ctx: Context, fact: Fact, functional: float) -> bool:
    """Check whether the world says something else of the subject, by a property of which at least
    this share of subjects have one object."""
    shares = ctx.memo.setdefault("share of single objects", {})
    if fact.property not in shares:
        subjects = ctx.world.subject_of[ctx.lookup.facts_with(fact.property)]
        counts = np.unique(subjects, return_counts=True)[1]
        shares[fact.property] = float((counts == 1).mean())
    several = len(ctx.lookup.objects(fact.subject, fact.property)) > 1
    return several and shares[fact.property] >= functional
