"""Groups: everything one relation links to one thing ("the films directed by X")."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..worlds.schema import EntityType, Phrases
from ..worlds.world import Fact
from .context import Context, both_sides, pick
from .wording import Voice, clause, plural_clause

MOST_INVERSE = 3
"""Subjects are found by searching their common object, so no more than one result list holds."""

_SINGULAR = re.compile(
    r"^(?:the|an?|one of the) ((?:\w+ )*?)([\w-]+) "
    r"(of|in|at|by|for|from|on|with|to|that|who|which|whose|where) (.*\{s\}.*)$"
)
_WITH_S = re.compile(r"^(?:the|an?|one of the) \{s\}'s? (?:s )?((?:\w+ )*?)([\w-]+)$")
_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}


class Group(NamedTuple):
    anchor: int
    relation: int
    inverse: bool
    """True: the members are subjects ("the films directed by X"); False: objects."""
    facts: tuple[Fact, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(f.subject if self.inverse else f.object for f in self.facts)


def plural(noun: str) -> str:
    """English plural of a noun phrase's head."""
    head, _, last = noun.rpartition(" ")
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif re.search(r"[^aeiou]y$", last):
        last = last[:-1] + "ies"
    elif re.search(r"(s|x|z|ch|sh)$", last):
        last += "es"
    else:
        last += "s"
    return f"{head} {last}" if head else last


def group_phrases(ctx: Context, prop: int, inverse: bool) -> Phrases:
    """Plural descriptions of a relation's members, with a slot {x} for the anchor. Empty sides
    where the schema's wording has no plural that is sure to be grammatical."""
    about = ctx.prop(prop)
    if inverse:
        kind = ctx.schema.types[ctx.schema.type_index(about.source)]
        return _each(about.inverse, lambda p: _plural_subject(p, kind))
    return _each(about.noun, _plural_object)


def _each(phrases: Phrases, made: Callable[[str], str | None]) -> Phrases:
    def side(texts: tuple[str, ...]) -> tuple[str, ...]:
        found = (made(text) for text in texts)
        return tuple(t for t in found if t is not None)

    return Phrases(side(phrases.train), side(phrases.heldout))


def _plural_subject(phrase: str, kind: EntityType) -> str | None:
    rest = clause(phrase, kind)
    return None if rest is None else f"{kind.plural} {plural_clause(rest)}".replace("{o}", "{x}")


def _plural_object(phrase: str) -> str | None:
    found = _SINGULAR.match(phrase)
    if found is None:
        return None
    adjectives, head, link, rest = found.groups()
    return f"{adjectives}{plural(head)} {plural_clause(f'{link} {rest}')}".replace("{s}", "{x}")


def random_group(
    ctx: Context, rng: np.random.Generator, low: int, high: int, *, key: int | None = None
) -> Group | None:
    """A random group of ``low`` to ``high`` members, every membership stated in the corpus.

    ``key``: an attribute the members' type must have.
    """
    options = []
    for i, p in enumerate(ctx.schema.properties):
        if not p.is_relation:
            continue
        for inverse in (False, True):
            kind = p.source if inverse else p.target
            if key is not None and ctx.prop(key).source != kind:
                continue
            if inverse and (p.symmetric or p.cardinality in ("1-1", "1-n")):
                continue
            if not inverse and p.functional:
                continue
            if both_sides(group_phrases(ctx, i, inverse)):
                options.append((i, inverse))
    if not options:
        return None
    prop, inverse = pick(rng, options)
    fact = ctx.any_fact(rng, prop)
    if fact is None:
        return None
    anchor = fact.object if inverse else fact.subject
    facts = ctx.lookup.subjects(prop, anchor) if inverse else ctx.lookup.objects(anchor, prop)
    high = min(high, MOST_INVERSE) if inverse else high
    if not low <= len(facts) <= high or ctx.names.given(anchor) is None:
        return None
    group = Group(anchor, prop, inverse, tuple(facts))
    if not all(ctx.stated(f.id) for f in facts):
        return None
    if not all(ctx.names.clear(m) for m in group.members) or not ctx.hidden(
        (anchor,), group.members
    ):
        return None
    return group


def describe_group(ctx: Context, voice: Voice, group: Group) -> str:
    """ "films directed by X"."""
    phrases = group_phrases(ctx, group.relation, group.inverse)
    return voice.pick(phrases).replace("{x}", voice.named(group.anchor))
