"""Sentence templates compiled for speed: a page is then a few list look-ups and one join.

A template's ``{s}`` is written as the name, a short reference ("the film", a family name) or a
pronoun; "{s}'s" becomes "its". Only what depends on the entity is left open.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError, unknown
from ..worlds.schema import EntityType, Phrases, Property, Schema

Phrasing = Literal["train", "heldout", "all"]
NAME = "\0"
"""Stands for the entity's name in a compiled piece; no name or phrase contains it."""
SHORT = "\1"
"""Stands for the last word of the entity's name."""


class Chunk(NamedTuple):
    """Pages of entities lo..hi-1; ``texts[i][start[j]:end[j]]`` is the written object of fact
    ``first_fact + j``, where that fact's subject is entity ``lo + i``."""

    texts: list[str]
    first_fact: int
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class Form(NamedTuple):
    """A sentence around its object list: ``before + objects + after``."""

    before: str
    after: str
    fixed: bool
    """True if neither piece contains NAME or SHORT."""
    article: bool
    """True if ``before`` ends in an indefinite article that must agree with the object."""


class LeadPart(NamedTuple):
    """Literal text, then the objects of a property (-1: nothing more)."""

    text: str
    prop: int
    alias: bool
    article: bool


class Lead(NamedTuple):
    parts: tuple[LeadPart, ...]
    needs: int
    """Bit mask of local property numbers that must be there."""
    states: frozenset[int]
    """Properties whose objects the sentence names in full (not by their adjective)."""


def side(phrases: Phrases, phrasing: Phrasing) -> tuple[str, ...]:
    """The phrases of one side, or all of them."""
    if phrasing == "all":
        return phrases.train + phrases.heldout
    if phrasing not in ("train", "heldout"):
        raise WorldError(unknown("phrasing", phrasing, ("train", "heldout", "all")))
    return phrases.train if phrasing == "train" else phrases.heldout


MODES = 3
"""Ways of naming the subject: its name, a short reference, a pronoun."""
Forms = tuple[tuple[Form, ...], ...]


@lru_cache(maxsize=512)  # it took half of the time of a small world with many phrasings
def compile_forms(t: EntityType, p: Property, phrasing: Phrasing, facet: int) -> Forms:
    """``forms[template][mode]`` of a property's page sentences for one facet of its source type."""
    return tuple(
        tuple(_form(template, t, facet, mode) for mode in range(MODES))
        for template in side(p.document, phrasing)
    )


def compile_plain(t: EntityType, template: str, facet: int) -> list[str]:
    """A distractor sentence in each mode; "{x}" stays open."""
    return [_subject(template, t, facet, mode) for mode in range(MODES)]


def compile_leads(t: EntityType, schema: Schema, phrasing: Phrasing) -> list[Lead]:
    """The first sentences of a type, with what each of them needs."""
    local = {p.name: i for i, p in enumerate(_own(schema, t))}
    leads = []
    for template in side(t.lead, phrasing):
        parts = []
        needs = 0
        states = set()
        pieces = re.split(r"\{([^{}]*)\}", template)
        for k in range(2, len(pieces), 2):
            text = pieces[k]
            slot = pieces[k + 1] if k + 1 < len(pieces) else ""
            prop = -1
            if slot:
                name = slot.removesuffix(".alias")
                prop = schema.property_index(name)
                needs |= 1 << local[name]
                if not slot.endswith(".alias"):
                    states.add(prop)
            article = bool(slot) and _ends_in_article(text)
            text = text[:-1] if article else text
            parts.append(LeadPart(text, prop, slot.endswith(".alias"), article))
        leads.append(Lead(tuple(parts), needs, frozenset(states)))
    plain = f" is a{indefinite(t.noun)}{t.noun}."
    leads.append(Lead((LeadPart(plain, -1, False, False),), 0, frozenset()))
    return leads


def own_bits(schema: Schema) -> list[int]:
    """Return the bit of each property among the properties of its source type."""
    bits = [0] * len(schema.properties)
    for t in schema.types:
        for i, p in enumerate(_own(schema, t)):
            bits[schema.property_index(p.name)] = 1 << i
    return bits


def indefinite(text: str) -> str:
    """The end of the indefinite article before ``text``: "" or "n", and a blank."""
    start = text[:2].lower()
    vowel = start[:1] in "aeiou" and text[:3].lower() not in ("uni", "eur", "one")
    return "n " if vowel or start[:1] == "8" or start in ("11", "18") else " "


def _own(schema: Schema, t: EntityType) -> list[Property]:
    return [p for p in schema.properties if p.source == t.name]


def _ends_in_article(text: str) -> bool:
    return text == "A " or text.endswith(" a ")


def _form(template: str, t: EntityType, facet: int, mode: int) -> Form:
    before, after = _subject(template, t, facet, mode).split("{o}")
    article = _ends_in_article(before)
    if article:
        before = before[:-1]
    fixed = not any(mark in before + after for mark in (NAME, SHORT))
    return Form(before, after, fixed, article)


def _subject(template: str, t: EntityType, facet: int, mode: int) -> str:
    pronoun, possessive = t.pronouns[facet % len(t.pronouns)].split("/")
    reference = t.reference or SHORT
    text = template
    if mode:
        # A second mention inside one sentence is always a pronoun's possessive or short.
        short = reference
        text = text.replace("{s}'s", possessive if mode == 2 else short + "'s")
        if mode == 2 and text.startswith("{s} "):
            text = pronoun + text[3:]
        text = text.replace("{s}", short)
    else:
        first = text.find("{s}") + 3
        rest = text[first:].replace("{s}'s", possessive).replace("{s}", reference)
        text = text[:first] + rest
    text = text.replace("{s}", NAME)
    return text[0].upper() + text[1:]
