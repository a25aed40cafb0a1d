"""Names that look like names: unique within a world, equal to no stop-listed real name."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from datetime import date
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError
from ..seeding import stream
from .grammar import (
    LISTED,
    OPEN,
    Pattern,
    demonym,
    kind_of,
    listed_words,
    parse_grammar,
    stop_names,
    words,
)
from .schema import EntityType, Schema

_DELETE = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
_ROUNDS = 60
_ENDS_IN_A = re.compile(r"(^| )A $")
_BEFORE_VOWEL = re.compile(r"\0 (?=[AEIO])")


def name_key(name: str) -> str:
    """``text.normalise_answer`` for ASCII names, five times faster: two names with equal keys
    would be the same answer."""
    parts = name.lower().translate(_DELETE).split()
    return " ".join([w for w in parts if w not in _ARTICLES])


def draw_names(
    schema: Schema,
    type_of: NDArray[np.int16],
    facet_of: NDArray[np.int8],
    seed: int,
    part: tuple[int, int] | None = None,
) -> tuple[list[str], list[str]]:
    """A name and an alias ("" if none) per entity; all keys differ. Lengths (N,). ``part``: only
    names of that part, ``(k, of)``.

    Raises ``WorldError`` if a grammar cannot make enough different names.
    """
    names = [""] * len(type_of)
    aliases = [""] * len(type_of)
    taken = set(stop_names())
    for index, t in enumerate(schema.types):
        where = np.flatnonzero(type_of == index)
        maker = _Maker(t, len(where), seed, part)
        maker.fill(where, facet_of, names, aliases, taken)
    return names, aliases


class _Maker:
    """Draws the names of one type: whole batches, then again for those that collided."""

    def __init__(
        self, t: EntityType, n: int, seed: int, part: tuple[int, int] | None = None
    ) -> None:
        self._type = t
        self._part, self._parts = part or (0, 1)
        self._rng = stream(seed, "names", t.name)
        self._patterns = parse_grammar(t.names)
        # Pools grow slowly with the world: people share first names more than family names.
        self._sizes = {"given": 120 + n // 200, "family": 300 + n // 12}
        self._pools: dict[str, list[str]] = {}

    def fill(
        self,
        where: NDArray[np.int64],
        facet_of: NDArray[np.int8],
        names: list[str],
        aliases: list[str],
        taken: set[str],
    ) -> None:
        open_ = where
        for attempt in range(_ROUNDS * self._parts):
            if not len(open_):
                return
            facets = (
                facet_of[open_].astype(np.int64)
                if self._type.facets
                else np.full(len(open_), -1, np.int64)
            )
            which = self._rng.integers(len(self._patterns), size=len(open_))
            drawn = [("", "")] * len(open_)
            for p, pattern in enumerate(self._patterns):
                mine = np.flatnonzero(which == p)
                made = self._draw(pattern, facets[mine], attempt // self._parts)
                for i, pair in zip(mine.tolist(), made, strict=True):
                    drawn[i] = pair
            failed = []
            for i, (entity, (name, alias)) in enumerate(zip(open_.tolist(), drawn, strict=True)):
                key = name_key(name)
                other = self._parts > 1 and crc32(key.encode()) % self._parts != self._part
                if not key or key in taken or other:
                    failed.append(i)
                    continue
                taken.add(key)
                names[entity] = name
                if alias and (also := name_key(alias)) and also not in taken:
                    taken.add(also)
                    aliases[entity] = alias
            open_ = open_[failed]
        raise WorldError(
            f"types.{self._type.name}: the name grammar {self._type.names!r} ran out of different "
            f"names ({len(open_)} of {len(where)} missing); add a pattern with another slot"
        )

    def _draw(
        self, pattern: Pattern, facets: NDArray[np.int64], attempt: int
    ) -> list[tuple[str, str]]:
        n = len(facets)
        slots = dict.fromkeys((*pattern.slots, *pattern.alias_slots))
        drawn: dict[str, Sequence[str]] = {
            s: self._slot(s, n, facets, attempt) for s in slots if s != "demonym"
        }
        if "demonym" in slots:
            picks = self._rng.integers(12, size=n).tolist()
            base = drawn[pattern.alias_slots[0]]
            drawn["demonym"] = [
                demonym(c, k) if c else "" for c, k in zip(base, picks, strict=True)
            ]
        whole = [all(words) for words in zip(*drawn.values(), strict=True)]
        names = _join(pattern.pieces, [drawn[s] for s in pattern.slots], n)
        others = _join(pattern.alias_pieces, [drawn[s] for s in pattern.alias_slots], n)
        return [
            (name, alias) if ok else ("", "")
            for name, alias, ok in zip(names, others, whole, strict=True)
        ]

    def _slot(self, slot: str, n: int, facets: NDArray[np.int64], attempt: int) -> Sequence[str]:
        kind = kind_of(slot)
        if kind.startswith("="):
            listed: Sequence[str] = kind[1:].split(",")
        elif kind in LISTED:
            listed = listed_words(kind)
        elif kind in OPEN:
            # After some rounds the short words of a large world are used up: make longer ones.
            return words(kind, n, self._rng, syllables=0 if attempt < 4 else 2 + (attempt > 12))
        elif kind == "given":
            pools = [self._pool("given0"), self._pool("given1")]
            pick = self._rng.random(n)
            side = np.where(facets >= 0, facets % 2, self._rng.integers(2, size=n))
            return [
                pools[s][int(u * len(pools[s]))]
                for s, u in zip(side.tolist(), pick.tolist(), strict=True)
            ]
        else:
            listed = self._pool(kind)
        return [listed[i] for i in self._rng.integers(len(listed), size=n).tolist()]

    def _pool(self, kind: str) -> list[str]:
        if kind not in self._pools:
            size = self._sizes["given" if kind.startswith("given") else kind]
            pool: dict[str, None] = {}
            while len(pool) < size:
                pool.update(dict.fromkeys(words(kind, size, self._rng)))
                pool.pop("", None)
            self._pools[kind] = list(pool)[:size]
        return self._pools[kind]


def _join(pieces: tuple[str, ...], columns: list[Sequence[str]], n: int) -> list[str]:
    if not columns:
        return ["".join(pieces)] * n
    if len(columns) == 1:
        a, b = pieces
        return [a + x + b for x in columns[0]]
    if any(_ENDS_IN_A.search(piece) for piece in pieces[:-1]):
        whole = _join(tuple(p.replace("A ", "\0 ") for p in pieces), columns, n)
        return [_BEFORE_VOWEL.sub("An ", name).replace("\0", "A") for name in whole]
    form = "{}".join(p.replace("{", "{{").replace("}", "}}") for p in pieces).format
    return [form(*row) for row in zip(*columns, strict=True)]


def add_homonyms(
    schema: Schema,
    names: list[str],
    aliases: list[str],
    type_of: NDArray[np.int16],
    facet_of: NDArray[np.int8],
    rate: float,
    seed: int,
) -> None:
    """Give a share of the entities the name of another one, in place.

    Names are shared among types of one grammar (a film and the novel it is based on) and within a
    facet (a given name fits its pronouns); hub types keep names of their own.
    """
    if not 0.0 <= rate <= 0.9:
        raise WorldError(f"homonyms must be a share in [0, 0.9], got {rate}")
    if not rate:
        return
    groups: dict[tuple[str, int], list[int]] = {}
    for e, (t, facet) in enumerate(zip(type_of.tolist(), facet_of.tolist(), strict=True)):
        if not schema.types[t].hub:
            groups.setdefault((schema.types[t].names, facet), []).append(e)
    rng = stream(seed, "names", "homonyms")
    for members in groups.values():
        order = rng.permutation(members).tolist()
        count = min(round(rate * len(order) / 2), len(order) // 2)
        for copy, original in zip(order[:count], order[count : 2 * count], strict=True):
            names[copy] = names[original]
            aliases[copy] = aliases[original] = ""


def draw_titles(
    schema: Schema,
    names: list[str],
    type_of: NDArray[np.int16],
    subject: NDArray[np.int64],
    prop: NDArray[np.int64],
    obj: NDArray[np.int64],
) -> list[str]:
    """Titles (N,): the name where it is the only one, else "Name (film)", "Name (born 1931)",
    "Name (1994 film)" or, at last, "Name (film, 2)". Unique also when normalised."""
    if len(set(names)) == len(names):
        return list(names)
    groups: dict[str, list[int]] = {}
    for entity, name in enumerate(names):
        groups.setdefault(name, []).append(entity)
    titles = list(names)
    taken = {name_key(n) for n in groups}
    for name, members in groups.items():
        if len(members) == 1:
            continue
        nouns = [schema.types[int(type_of[e])].noun for e in members]
        for entity, noun in zip(members, nouns, strict=True):
            tags = [noun] if nouns.count(noun) == 1 else []
            tags += _dated(schema, entity, noun, subject, prop, obj)
            tags += [f"{noun}, {k}" for k in range(1, len(members) + 2)]
            for tag in tags:
                title = f"{name} ({tag})"
                if name_key(title) not in taken:
                    break
            taken.add(name_key(title))
            titles[entity] = title
    return titles


def _dated(
    schema: Schema,
    entity: int,
    noun: str,
    subject: NDArray[np.int64],
    prop: NDArray[np.int64],
    obj: NDArray[np.int64],
) -> list[str]:
    lo, hi = np.searchsorted(subject, [entity, entity + 1])
    for row in range(int(lo), int(hi)):
        p = schema.properties[int(prop[row])]
        if p.value == "year":
            return [f"{int(obj[row])} {noun}"]
        if p.value == "date":
            year = date.fromordinal(int(obj[row])).year
            return [f"born {year}" if "birth" in p.name or "born" in p.name else f"{year} {noun}"]
    return []
