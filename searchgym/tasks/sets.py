"""``set``: everything that is in one relation to one thing, or that part of it with a property.

The answer is a set, written with semicolons, as the question says; it is scored by its members
(``searchgym.scoring.sets``). Of four tasks one asks for the members that share a category or an
object ("which of the actors in F are also people born in C?").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..scoring.sets import set_text
from ..text import normalise_answer
from ..worlds.schema import Phrases
from ..worlds.world import Fact
from .context import Context, both_sides, pick
from .draft import Draft, Sketch, family
from .groups import describe_group, group_phrases, random_group
from .paths import FactGroup, forward
from .wording import PEOPLE, Voice, capitalised

MOST = 8
_ALL = Phrases(
    (
        "Which are the {g}?",
        "List the {g}.",
        "Name all {g}.",
        "Who or what are the {g}?",
        "Give the names of all {g}.",
        "Tell me the names of the {g}.",
        "I would like a list of the {g}.",
        "Find all {g}.",
    ),
    (
        "Enumerate the {g}.",
        "What are the names of the {g}?",
        "Write down every one of the {g}.",
    ),
)
_SOME = Phrases(
    (
        "Which of the {g} are also {h}?",
        "Of the {g}, which are also {h}?",
        "Name those of the {g} {who} are {h}.",
        "Among the {g}, which ones are {h} as well?",
        "List the {g} {who} are {h}, too.",
        "Take the {g}. Which of them are {h}?",
    ),
    (
        "Looking at the {g}, which ones are at the same time {h}?",
        "Pick out those of the {g} {who} are {h}.",
    ),
)
_FORM = Phrases(
    (
        "Separate the names with semicolons.",
        "Write the names with semicolons between them.",
        "Put a semicolon between the names.",
        "Give the names separated by semicolons.",
    ),
    ("Use semicolons to separate the names.",),
)


class _Filter(NamedTuple):
    """Property that the members asked for share; ``facts``: one a member, in their order."""

    property: int
    value: int
    facts: tuple[Fact, ...]


@family(same_answer=0.1)
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A group of two to eight members, whole or (of four tasks one) those with one property: at
    least one member and not all."""
    group = random_group(ctx, rng, 2, MOST)
    if group is None:
        return None
    chosen = None
    if turn % 4 == 3:
        chosen = _filter(ctx, rng, group)
        if chosen is None:
            return None
    members = [
        m for m, fact in zip(group.members, chosen.facts if chosen else group.facts, strict=True)
        if chosen is None or fact.object == chosen.value
    ]  # fmt: skip
    forms = [ctx.names.entity_answers(m) for m in members]
    if len({normalise_answer(form) for of in forms for form in of}) < sum(map(_different, forms)):
        return None  # two members that an answer could not tell apart
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(members[0])
    if chosen is None:
        sketch.group(group, anchor, member)
    else:
        _sketch_filtered(ctx, sketch, group, chosen, anchor, member)
    if not sketch.hidden:
        return None

    def render(voice: Voice) -> str:
        text = voice.pick(_ALL if chosen is None else _SOME)
        if chosen is not None:
            phrase = voice.pick(group_phrases(ctx, chosen.property, inverse=True))
            value = ctx.names.text(chosen.property, chosen.value)
            if ctx.prop(chosen.property).is_relation:
                value = voice.named(chosen.value)
            text = text.replace("{h}", phrase.replace("{x}", value))
            text = text.replace("{who}", "who" if ctx.noun(members[0]) in PEOPLE else "that")
        asked = text.replace("{g}", describe_group(ctx, voice, group))
        return f"{capitalised(asked)} {voice.pick(_FORM)}"

    order = sorted(range(len(members)), key=lambda i: ctx.names.title(members[i]))
    texts = (
        set_text(ctx.names.title(m) for m in members),
        set_text(ctx.names.name(m) for m in members),
    )
    return sketch.finish(
        "set", shape="all" if chosen is None else "some",
        answers=tuple(dict.fromkeys(texts)), items=tuple(forms[i] for i in order),
        hops=1 if chosen is None else 2, branches=len(group.facts), operation=f"set:{member}",
        render=render,
    )  # fmt: skip


def _different(forms: tuple[str, ...]) -> int:
    return len({normalise_answer(form) for form in forms})


def _filter(ctx: Context, rng: np.random.Generator, group: FactGroup) -> _Filter | None:
    """A property that each member has once, stated, and a value that some share and others not."""
    kind = ctx.prop(group.relation).source if group.inverse else ctx.prop(group.relation).target
    options = [
        i
        for i, p in enumerate(ctx.schema.properties)
        if p.source == kind and i != group.relation
        and (p.value == "category" or (p.is_relation and p.cardinality == "n-1"))
        and both_sides(group_phrases(ctx, i, inverse=True))
    ]  # fmt: skip
    if not options:
        return None
    prop = pick(rng, options)
    facts: list[Fact] = []
    for member in group.members:
        own = ctx.lookup.objects(member, prop)
        if len(own) != 1 or not ctx.stated(own[0].id) or not ctx.usable_as_value(forward(own[0])):
            return None
        facts.append(own[0])
    value = pick(rng, facts).object
    if all(fact.object == value for fact in facts):
        return None
    if ctx.prop(prop).is_relation and ctx.names.given(value) is None:
        return None
    return _Filter(prop, value, tuple(facts))


def _sketch_filtered(
    ctx: Context, sketch: Sketch, group: FactGroup, chosen: _Filter, anchor: str, member: str
) -> None:
    """The group's facts, then what each member has; those that are not asked for are looked at,
    too, for nobody knows before."""
    if ctx.prop(chosen.property).is_relation:
        value = sketch.entity(chosen.value, given=True)
    else:
        value = sketch.given_value(chosen.property, chosen.value)
    sketch.group(group, anchor, member)
    for fact in chosen.facts:
        if fact.object == chosen.value:
            step = forward(fact)
            sketch.edge(member, step, value, sketch.query(fact.subject, step))
        else:
            sketch.look_at(fact.subject)
