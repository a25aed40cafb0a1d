"""Pages of generated worlds with wrong facts: old versions, and other sites that contradict.

A fact's object is replaced, where the page states it, by the object of another fact of the same
property, so the wrong value always has the right type, facet and range.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ...corpora.corpus import Corpus, GeneratedCorpus
from ...corpora.render_forms import indefinite
from ...errors import EngineError
from ...seeding import derive
from ...worlds.values import STYLES, format_value
from ...worlds.world import World

_TRIES = 12
_ARTICLE = re.compile(r"(?<![A-Za-z])([Aa])n? $")
OLDEST = 25
"""Years; old pages are 2 to this old. Ages, not dates: a date could not fit every page's facts."""


class Change(NamedTuple):
    """One fact as it is, and as a page states it."""

    fact: int
    true: str
    stated: str


class FactRewriter:
    """Writes false versions of the pages of one world. Pure in (position, key).

    ``EngineError`` unless corpus and world belong together.
    """

    def __init__(self, world: World | None, corpus: Corpus) -> None:
        if world is None or not isinstance(corpus, GeneratedCorpus):
            raise EngineError(
                "stale and contradicting pages need a generated world, whose facts are known; use "
                "noise, seo, duplicate or adversarial over this corpus"
            )
        self.world, self.corpus = world, corpus
        order = np.argsort(world.property_of, kind="stable")
        counts = np.bincount(world.property_of, minlength=len(world.schema.properties))
        self._facts_of = np.split(order, np.cumsum(counts)[:-1])
        """Fact numbers by property."""

    def rewrite(self, position: int, key: int) -> tuple[str, tuple[Change, ...]]:
        """The text of ``corpus[position]`` with about half of its facts wrong, at least one.

        Where no other value exists for any fact (a property with a single value in the whole
        world), the text comes back unchanged, with no changes.
        """
        text = self.corpus[position].text
        statements = self.corpus.stated_in(position)
        chosen = [s for s in statements if derive(key, "fact", s.fact) & 1]
        rest = [s for s in statements if s not in chosen]
        out: list[tuple[int, int, str]] = []
        changes: list[Change] = []
        for s in chosen + sorted(rest, key=lambda s: derive(key, "order", s.fact)):
            if s not in chosen and changes:
                break
            true = text[s.start : s.end]
            if (other := self._other(s.fact, true, key)) is not None:
                out.append((s.start, s.end, other))
                changes.append(Change(s.fact, true, other))
        for start, end, other in sorted(out, reverse=True):
            before = _ARTICLE.sub(lambda m: m[1] + indefinite(other), text[:start])  # noqa: B023
            text = before + other + text[end:]
        return text, tuple(changes)

    def _other(self, fact: int, written: str, key: int) -> str | None:
        """Another value of the fact's property, as the page would write it."""
        world = self.world
        known = world.fact(fact)
        prop = world.prop(known)
        rows = self._facts_of[known.property]
        lo, hi = int(world.indptr[known.subject]), int(world.indptr[known.subject + 1])
        same = world.property_of[lo:hi] == known.property
        true = set(world.object_of[lo:hi][same].tolist())
        names = {world.names[o] for o in true} if prop.is_relation else set()
        for attempt in range(_TRIES):
            row = int(rows[derive(key, "value", fact, attempt) % len(rows)])
            value = int(world.object_of[row])
            if value in true:
                continue
            if prop.is_relation:
                if value != known.subject and world.names[value] not in names:
                    return world.names[value]
                continue
            style = next(
                (s for s in range(STYLES) if format_value(prop, known.object, s) == written), 0
            )
            return format_value(prop, value, style)
        return None


def dated(text: str, key: int) -> str:
    """A page that says how old it is."""
    return f"{text} This version of the page is {2 + derive(key, 'age') % (OLDEST - 1)} years old."
