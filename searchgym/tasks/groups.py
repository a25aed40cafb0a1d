"""Groups: everything one relation links to one thing ("the films directed by X"); and the family
``count``, which asks how many members one has. Answers: digits and number word."""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .context import Context, both_sides, pick
from .draft import Draft, Sketch, family
from .names import number_answers
from .paths import FactGroup
from .wording import Voice, capitalised, plural_description

MOST_INVERSE = 2
"""Subjects are found by searching their common object, whose own page takes one of three places."""
MOST_MENTIONS = 2
"""Other pages that mention the common object would push subjects out of the results."""


def group_phrases(ctx: Context, prop: int, inverse: bool) -> Phrases:
    """Plural descriptions of a relation's members, with a slot {x} for the anchor. Empty sides
    where the schema's wording has no plural that is sure to be grammatical."""
    about = ctx.prop(prop)
    phrases, slot = (about.inverse, "{o}") if inverse else (about.noun, "{s}")

    def side(texts: tuple[str, ...]) -> tuple[str, ...]:
        made = (plural_description(text) for text in texts)
        return tuple(text.replace(slot, "{x}") for text in made if text is not None)

    return Phrases(side(phrases.train), side(phrases.heldout))


def random_group(
    ctx: Context, rng: np.random.Generator, low: int, high: int, *, key: int | None = None
) -> FactGroup | None:
    """A random group of ``low`` to ``high`` members, every membership stated in the corpus.

    ``key``: an attribute the members' type must have.
    """
    options = ctx.memo.get(("groups", key))
    if options is None:
        options = ctx.memo["groups", key] = describable_relations(ctx, key)
    if not options:
        return None
    prop, inverse = pick(rng, options)
    fact = ctx.any_fact(rng, prop)
    if fact is None:
        return None
    anchor = fact.object if inverse else fact.subject
    facts = ctx.lookup.subjects(prop, anchor) if inverse else ctx.lookup.objects(anchor, prop)
    high = min(high, MOST_INVERSE) if inverse else high
    if inverse and ctx.mentions(anchor) > MOST_MENTIONS:
        return None
    if not low <= len(facts) <= high or ctx.names.given(anchor) is None:
        return None
    group = FactGroup(anchor, prop, inverse, tuple(facts))
    if not all(ctx.stated(f.id) for f in facts):
        return None
    if not all(ctx.names.clear(m) for m in group.members) or not ctx.hidden(
        (anchor,), group.members
    ):
        return None
    return group


def describable_relations(ctx: Context, key: int | None) -> list[tuple[int, bool]]:
    """(relation, inverse) whose members can be described and, with ``key``, have that attribute."""
    options = []
    for i, p in enumerate(ctx.schema.properties):
        for inverse in (False, True):
            kind = p.source if inverse else p.target
            if not p.is_relation or (key is not None and ctx.prop(key).source != kind):
                continue
            alone = p.symmetric or p.cardinality in ("1-1", "1-n") if inverse else p.functional
            if not alone and both_sides(group_phrases(ctx, i, inverse)):
                options.append((i, inverse))
    return options


def describe_group(ctx: Context, voice: Voice, group: FactGroup) -> str:
    """ "films directed by X"."""
    phrases = group_phrases(ctx, group.relation, group.inverse)
    return voice.pick(phrases).replace("{x}", voice.named(group.anchor))


HOW_MANY = Phrases(
    (
        "How many {g} are there?",
        "How many {g} are known?",
        "What is the number of {g}?",
        "Count the {g}. How many are there?",
        "How many {g} exist?",
        "Give the number of {g}.",
        "In total, how many {g} are there?",
        "Tell me how many {g} there are.",
        "What is the total number of {g}?",
        "I would like to know how many {g} there are.",
        "How many {g} can be found altogether?",
    ),
    (
        "How numerous are the {g}?",
        "Work out the total number of {g}.",
        "I would like to know how many {g} can be found.",
    ),
)
MOST = 12


@family(same_answer=0.3)
def count(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Counts two to twelve members; one-member groups would give "how many" away as a lookup."""
    group = random_group(ctx, rng, 2, MOST)
    if group is None:
        return None
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(group.members[0])
    sketch.group(group, anchor, member)

    def render(voice: Voice) -> str:
        text = voice.pick(HOW_MANY)
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "count", shape="subjects" if group.inverse else "objects",
        answers=number_answers(len(group.facts)), hops=1, operation=f"count:{member}",
        render=render,
    )  # fmt: skip
