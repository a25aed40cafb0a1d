"""``aggregate``: how many there are of a large group, or what their values add up to.

The members' pages are apart, so that no few searches show them all; a database answers at once.
"""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .context import Context, pick
from .draft import Draft, Sketch, family
from .groups import HOW_MANY, describable_relations, describe_group
from .names import amount_answers
from .paths import FactGroup, backward, forward
from .wording import Voice, capitalised

LEAST, MOST = 5, 40
"""Members of a group."""
_TOTAL = Phrases(
    (
        "What is the total {l} of the {g}?",
        "What do the {g} have in total as their {l}?",
        "Add up the {l} of all {g}. What is the sum?",
        "Taken together, what is the {l} of the {g}?",
        "Give the combined {l} of the {g}.",
        "Tell me the sum of the {l} of all {g}.",
        "What is the overall {l} of all {g} put together?",
        "I would like to know the total {l} of the {g}.",
    ),
    (
        "How much is the {l} of the {g} altogether?",
        "Work out the total {l} of all {g}.",
        "Summed over the {g}, what is the {l}?",
    ),
)


@family(same_answer=0.3)
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A group of five to forty subjects of one relation to one named thing; every third task adds
    up a count that each member has, the others count the members."""
    totals = turn % 3 == 2
    choices = ctx.memo.get("large groups")
    if choices is None:
        choices = ctx.memo["large groups"] = _large_groups(ctx)
    if totals and choices[1]:
        prop, anchor, key = pick(rng, pick(rng, choices[1]))
    elif choices[0]:
        prop, anchor, key = pick(rng, pick(rng, choices[0]))
    else:
        return None
    facts = ctx.lookup.subjects(prop, anchor)
    group = FactGroup(anchor, prop, True, tuple(facts))
    values = [ctx.lookup.objects(f.subject, key) for f in facts] if key >= 0 else []
    if any(len(row) != 1 or not ctx.stated(row[0].id) for row in values):
        return None
    if ctx.names.given(anchor) is None or not all(ctx.stated(f.id) for f in facts):
        return None
    sketch = Sketch(ctx)
    near, member = sketch.entity(anchor, given=True), sketch.entity(facts[0].subject)
    for fact in facts:  # each member's own page states it, and its title finds that page
        sketch.edge(near, backward(fact), member, ctx.names.title(fact.subject))
    number, operation, unit = len(facts), f"count:{member}", ""
    if key >= 0:
        value = sketch.value(key, values[0][0].object)
        for (fact,) in values:
            sketch.edge(member, forward(fact), value, ctx.names.title(fact.subject))
        number, operation = sum(row[0].object for row in values), f"sum:{member}={value}"
        unit = ctx.prop(key).unit
    if not ctx.hidden((anchor,), group.members):
        return None

    def render(voice: Voice) -> str:
        text = voice.pick(HOW_MANY if key < 0 else _TOTAL)
        if key >= 0:
            text = text.replace("{l}", ctx.label(key))
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "aggregate", shape="count" if key < 0 else "sum", answers=amount_answers(number, unit),
        hops=1 if key < 0 else 2, branches=len(facts), operation=operation, render=render,
    )  # fmt: skip


Choice = tuple[int, int, int]
"""Relation, anchor, and the attribute to add up (-1: none)."""


def _large_groups(ctx: Context) -> tuple[list[list[Choice]], list[list[Choice]]]:
    """Groups to count and to add up, those of each relation (and attribute) together."""
    counted: list[list[Choice]] = []
    added: list[list[Choice]] = []
    for prop, inverse in describable_relations(ctx, None):
        about = ctx.prop(prop)
        if (
            not inverse or not about.functional
        ):  # else the fact may stand on the anchor's page alone
            continue
        objects = ctx.world.object_of[ctx.lookup.facts_with(prop)]
        anchors, sizes = np.unique(objects, return_counts=True)
        large = anchors[(sizes >= LEAST) & (sizes <= MOST)].tolist()
        if not large:
            continue
        counted.append([(prop, anchor, -1) for anchor in large])
        for key, other in enumerate(ctx.schema.properties):
            if other.source == about.source and other.value == "count":
                added.append([(prop, anchor, key) for anchor in large])
    return counted, added
