"""Twins: a world with other names, and everything else as it was.

Every word that a name is built from is exchanged for another one of its kind, one for one, in the
name, title and alias of every entity. Graph, values and phrasings stay, so that tasks of one world
have their counterpart in the other, under the same id, and an agent that answers the one better
than the other knows something about its names. "invented" words mean nothing to a model; "known"
ones are real given names, surnames, cities and countries, as far as there are any (after
SynthWorlds' pairs of a real-mapped and a synthetic corpus, arXiv 2510.24427).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from ..errors import WorldError, unknown
from ..seeding import stream
from .grammar import LISTED, Pattern, demonym, kind_of, listed_words, parse_grammar, words
from .names import draw_titles, name_key
from .world import World

STYLES = ("invented", "known")
_ROUNDS = 40
_LETTERS = r"[^\W\d_]+"


def twin(world: World, style: str = "invented", *, seed: int = 0) -> World:
    """The world with its names exchanged; the same arguments give the same names.

    Raises:
        WorldError: an unknown style, or a world whose names its schema's grammars did not make.
    """
    if style not in STYLES:
        raise WorldError(unknown("style of a twin's names", style, STYLES))
    old = [_read(world, entity) for entity in range(world.n_entities)]
    kinds: dict[str, str] = {}
    for name in old:
        for word, kind in name.kinds():
            if kinds.setdefault(word.lower(), kind) == "given":
                kinds[word.lower()] = kind  # what a person bears says whose name it is
    for attempt in range(_ROUNDS):
        new = _others(kinds, style, seed, attempt)
        made = [name.said(new) for name in old]
        names, aliases = [m[0] for m in made], [m[1] for m in made]
        if _as_different(world, names, aliases):
            break
    else:
        raise WorldError(f"no different names were found in {_ROUNDS} rounds; give another seed")
    columns = world.subject_of.astype(np.int64), world.property_of, world.object_of
    titles = draw_titles(world.schema, names, world.type_of, columns[0], *columns[1:])  # type: ignore[arg-type]
    return replace(world, names=names, titles=titles, alias_of=aliases)


class _Name:
    """A name taken apart by its grammar: which words stand in which slots."""

    def __init__(self, pattern: Pattern, slots: dict[str, str], ending: int, given: str) -> None:
        self._pattern, self._slots, self._ending, self._given = pattern, slots, ending, given

    def kinds(self) -> Iterator[tuple[str, str]]:
        for slot, word in self._slots.items():
            if _open(slot):
                kind = kind_of(slot)
                yield word, self._given if kind == "given" else kind

    def said(self, new: dict[str, str]) -> tuple[str, str]:
        """Name and alias with other words; "" where there is no alias."""
        slots = dict(self._slots)
        for slot, word in self._slots.items():
            if _open(slot):
                other = new[word.lower()]
                slots[slot] = other.capitalize() if word[0].isupper() else other
        pattern = self._pattern
        name = _filled(pattern.pieces, pattern.slots, slots)
        if not pattern.alias_slots or not all(s in slots for s in _plain(pattern)):
            return name, ""
        if "demonym" in pattern.alias_slots:
            slots["demonym"] = demonym(slots[pattern.alias_slots[0]], self._ending)
        return name, _filled(pattern.alias_pieces, pattern.alias_slots, slots)


def _plain(pattern: Pattern) -> list[str]:
    return [slot for slot in pattern.alias_slots if slot != "demonym"]


def _open(slot: str) -> bool:
    return not slot.startswith("=") and kind_of(slot) not in LISTED and slot != "demonym"


def _filled(pieces: Sequence[str], slots: Sequence[str], words: dict[str, str]) -> str:
    return "".join(p + words[s] for p, s in zip(pieces, slots, strict=False)) + pieces[-1]


def _read(world: World, entity: int) -> _Name:
    """A name's words by slot; the pattern that also explains the alias comes first."""
    name, alias = world.names[entity], world.alias_of[entity]
    about = world.schema.types[int(world.type_of[entity])]
    grammar = about.names
    given = f"given{int(world.facet_of[entity]) % 2}" if about.facets else "given"
    patterns = parse_grammar(grammar)
    for with_alias in (True, False) if alias else (False,):
        for pattern in patterns:
            if with_alias and not pattern.alias_slots:
                continue
            match = _form(pattern.pieces, pattern.slots).fullmatch(name)
            if match is None:
                continue
            slots = dict(zip(dict.fromkeys(pattern.slots), match.groups(), strict=True))
            if not with_alias:
                return _Name(replace(pattern, alias_pieces=(), alias_slots=()), slots, 0, given)
            more = _alias(pattern, slots, alias)
            if more is not None:
                return _Name(pattern, {**more, **slots}, entity, given)
    raise WorldError(
        f"{name!r} was not made by the grammar {grammar!r}; twins are for generated worlds"
    )


def _alias(pattern: Pattern, slots: dict[str, str], alias: str) -> dict[str, str] | None:
    open_ = [slot for slot in pattern.alias_slots if slot not in slots]
    text = ""
    for piece, slot in zip(pattern.alias_pieces, pattern.alias_slots, strict=False):
        text += re.escape(piece)
        text += re.escape(slots[slot]) if slot in slots else f"({_words_of(slot)})"
    match = re.fullmatch(text + re.escape(pattern.alias_pieces[-1]), alias)
    if match is None:
        return None
    return {s: w for s, w in zip(open_, match.groups(), strict=True) if s != "demonym"}


@cache
def _form(pieces: tuple[str, ...], slots: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern's names as a regular expression, one group a slot; a slot that occurs again is the
    same word."""
    place: dict[str, int] = {}
    text = ""
    for piece, slot in zip(pieces, slots, strict=False):
        # "A" before a vowel is "An".
        text += re.sub(r"(^|(?<=\\ ))A(?=\\ $)", "An?", re.escape(piece))
        if slot in place:
            text += rf"\{place[slot]}"
            continue
        place[slot] = len(place) + 1
        text += f"({_words_of(slot)})"
    return re.compile(text + re.escape(pieces[-1]))


def _words_of(slot: str) -> str:
    kind = kind_of(slot)
    if kind.startswith("="):
        return "|".join(map(re.escape, kind[1:].split(",")))
    if kind in LISTED:
        return "|".join(map(re.escape, listed_words(kind)))
    return "[a-z]+" if kind in ("epithet", "demonym") else _LETTERS


def _as_different(world: World, names: Sequence[str], aliases: Sequence[str]) -> bool:
    def shared(texts: Sequence[str]) -> list[int]:
        first: dict[str, int] = {}
        return [first.setdefault(name_key(text), i) for i, text in enumerate(texts)]

    before, after = [*world.names, *world.alias_of], [*names, *aliases]
    return shared(before) == shared(after)


def _others(kinds: dict[str, str], style: str, seed: int, attempt: int) -> dict[str, str]:
    """Another word for each, in lower case, none of them used twice or in the old names."""
    taken = set(kinds)
    new: dict[str, str] = {}
    for kind in sorted(set(kinds.values())):
        mine = [word for word, of in kinds.items() if of == kind]
        rng = stream(seed, "twin", style, kind, attempt)
        real = _known(kind) if style == "known" else ()
        fresh = _fresh(kind, len(mine), rng, real)
        for word in mine:
            other = next(w for w in fresh if w not in taken)
            taken.add(other)
            new[word] = other
    return new


def _fresh(kind: str, n: int, rng: np.random.Generator, real: Sequence[str]) -> Iterator[str]:
    yield from (real[i] for i in rng.permutation(len(real)).tolist())
    made = {"given": ("given0", "given1")}.get(kind, (kind,))
    for attempt in range(1_000_000):
        for one in made:
            syllables = 0 if attempt < 4 else 2 + (attempt > 12)
            drawn = words(one, max(n, 32), rng, syllables=syllables)
            yield from (word.lower() for word in drawn if word)


@cache
def _known(kind: str) -> tuple[str, ...]:
    """Real words of a kind; places and surnames also put together as English ones are."""
    listed = [*listed_words(kind)]
    if kind in ("place", "family"):
        listed += map("".join, product(listed_words("stem"), listed_words(f"{kind}-end")))
    return tuple(dict.fromkeys(listed))
