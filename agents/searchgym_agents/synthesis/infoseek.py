"""InfoSeek's hierarchical constraint satisfaction (arXiv 2509.00375): trees of constraints.

The root is the answer; a node is what all its children's constraints together leave, and children
may themselves be unknown. A builder adds constraints to the root until only it is left, then blurs
named children, one an iteration: each is replaced by constraints that single it out. Constraints
that turn out redundant are dropped, so that without any one of those kept there is more than one
answer. The tree stands in ``task.meta["tree"]`` in the released form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context
from searchgym.tasks.draft import Draft, family

from .constraints import ConstraintGraph, Edge, Node, any_answer, determine, draft, minimal, rarer


@register("task family:infoseek")
@family()
def infoseek(
    ctx: Context,
    rng: np.random.Generator,
    turn: int,
    depth: int = 3,
    hops: int = 2,
    iterations: int = 5,
    characters: int = 100,
) -> Draft | None:
    """A question from a research tree.

    Args:
        depth: Most facts between the root and a leaf.
        hops: Least, as released.
        iterations: Most children that are looked at to be blurred, as released.
        characters: Pages of blurred children are longer, as released.
    """
    root = rarer(ctx, any_answer(ctx, rng), any_answer(ctx, rng))
    facts = determine(ctx, rng, root)
    if facts is None:
        return None
    tree = ConstraintGraph((Node(root),))
    for fact in facts:
        tree = tree.with_fact(ctx, fact)
    for place in range(1, iterations + 1):
        far = tree.distances()
        if place >= len(tree.nodes) or far[place] >= depth:
            break
        node = tree.nodes[place]
        if (
            node.prop >= 0
            or len(ctx.corpus[int(ctx.corpus.page_of[node.value])].text) <= characters
        ):
            continue
        below = determine(ctx, rng, node.value, tree.entities, least=1, most=3)
        if below is None:
            continue
        blurred = tree.changed(place, given=False)
        for fact in below:
            blurred = blurred.with_fact(ctx, fact)
        if (blurred := minimal(ctx, blurred)).is_tree and root == blurred.answer:
            tree = blurred
            if turn % 2 == 0 and max(tree.distances().values()) >= hops:
                break  # planner's "done": every other tree is blurred as far as it goes
    if max(tree.distances().values()) < hops:
        return None
    return draft(ctx, "infoseek", tree, shape="tree", meta={"tree": research_tree(ctx, tree)})


def research_tree(
    ctx: Context, graph: ConstraintGraph, place: int = 0, above: Edge | None = None
) -> dict[str, Any]:
    """A tree of constraints as InfoSeek releases it: ``id``, ``entity`` (None of a mere value),
    ``claims`` about the children, ``children``, ``href``."""
    node = graph.nodes[place]
    below = [e for e in graph.around(place) if e != above]
    page = ctx.corpus[int(ctx.corpus.page_of[node.value])] if node.prop < 0 else None
    return {
        "id": place,
        "entity": page.title if page else None,
        "claims": [{"target_id": e.other(place), "claim": " ".join(ends(ctx, e))} for e in below],
        "children": [research_tree(ctx, graph, e.other(place), e) for e in below],
        "href": page.url if page else "",
    }


def ends(ctx: Context, edge: Edge) -> tuple[str, str, str]:
    """A fact as three texts: subject, property, object."""
    fact = edge.fact
    return (
        ctx.names.title(fact.subject),
        ctx.label(fact.property),
        ctx.names.text(fact.property, fact.object),
    )
