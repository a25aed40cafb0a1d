"""Families about all that one relation links to one thing ("the films directed by X").

``count`` asks how many there are of two to twelve; ``aggregate`` of a group whose pages no few
searches show, or what its values add up to; ``set`` for the members themselves, written with
semicolons and scored one by one (``searchgym.scoring.sets``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..scoring.sets import set_text
from ..text import normalise_answer
from ..worlds.schema import Phrases
from ..worlds.world import Fact
from .context import (
    Context,
    FactGroup,
    amount_answers,
    backward,
    both_sides,
    forward,
    number_answers,
    pick,
)
from .draft import Draft, Rows, Sketch, family, operation
from .wording import PEOPLE, Voice, capitalised, passive, plural_description, split_description

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
_THERE = (" are there?", " are there in all?")
_CLAUSE = re.compile(r"(?:that|who) (?!the |[A-Z])")
_PART = re.compile(r"of (?!which|whom)")
MOST_COUNTED = 12


def how_many(ctx: Context, voice: Voice, group: FactGroup) -> str:
    """A question for the number of members; "How many people founded X?" in connected prose."""
    form, told = voice.pick(HOW_MANY), describe_group(ctx, voice, group)
    parts = split_description(f"the {told}")
    if not ctx.schema.prose or parts is None or not form.endswith(_THERE):
        return capitalised(form.replace("{g}", told))
    head, rest = parts
    if _CLAUSE.match(rest):
        return f"How many {head} {rest.partition(' ')[2]}?"
    if verb := passive(rest):
        return f"How many {head} {'are' if verb == 'is' else 'were'} {rest}?"
    end = f"{rest} are there" if _PART.match(rest) else f"are there {rest}"
    return f"How many {head} {end}?"


@family(same_answer=0.3)
def count(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Counts two to twelve members; one-member groups would give "how many" away as a lookup."""
    group = random_group(ctx, rng, 2, MOST_COUNTED)
    if group is None:
        return None
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(group.members[0])
    sketch.group(group, anchor, member)

    def render(voice: Voice) -> str:
        return how_many(ctx, voice, group)

    return sketch.finish(
        "count", shape="subjects" if group.inverse else "objects",
        answers=number_answers(len(group.facts)), hops=1, operation=f"count:{member}",
        render=render,
    )  # fmt: skip


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
def aggregate(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
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
        if key < 0:
            return how_many(ctx, voice, group)
        text = voice.pick(_TOTAL).replace("{l}", ctx.label(key))
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "aggregate", shape="count" if key < 0 else "sum", answers=amount_answers(number, unit),
        hops=1 if key < 0 else 2, branches=len(facts), operation=operation, render=render,
    )  # fmt: skip


Choice = tuple[int, int, int]
"""Relation, anchor, and the attribute to add up (-1: none)."""


def _large_groups(ctx: Context) -> tuple[list[list[Choice]], list[list[Choice]]]:
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


MOST_MEMBERS = 8
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
def member_set(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A group of two to eight members, whole or (of four tasks one) those with one property: at
    least one member and not all."""
    group = random_group(ctx, rng, 2, MOST_MEMBERS)
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
        value = sketch.value(chosen.property, chosen.value, given=True)
    sketch.group(group, anchor, member)
    for fact in chosen.facts:
        if fact.object == chosen.value:
            step = forward(fact)
            sketch.edge(member, step, value, sketch.query(fact.subject, step))
        else:
            sketch.look_at(fact.subject)


@operation("count")
def _number(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(len(rows))] if rows else []


@operation("sum")
def _sum(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(sum(value for _, value in rows))] if rows else []


@operation("set")
def _set(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [set_text([text(0, member) for (member,) in rows])] if rows else []
