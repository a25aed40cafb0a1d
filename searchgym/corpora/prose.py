"""Pages in connected prose: sentences that share facts, and details that nobody asks about.

A schema with a ``prose`` grammar is written so. Each property is said as a sentence
(``document``), an ``aside`` ("born in {o}") or a ``tail`` ("with {o} in the leading role");
``PATTERNS`` join one to three of them. Between them stand sentences of the grammar, nested
alternatives per type: they name nothing of the world and state none of its properties. A page's
length is drawn, lognormal, as real pages' lengths are distributed.

Every choice is drawn from (wording seed, entity), so a page is the same bytes whatever chunk it is
rendered in.
"""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Callable, Sequence
from datetime import date
from math import exp
from random import Random
from typing import Any

import numpy as np

from ..errors import WorldError
from ..seeding import derive, stream
from ..text import listed
from ..worlds.grammar import words
from ..worlds.schema import EntityType
from ..worlds.values import formatter
from ..worlds.world import World
from .render_forms import NAME, SHORT, Chunk, Phrasing, compile_plain, indefinite, side

PATTERNS = (
    "Y", "Y", "Y", "S v.", "S v, t.", "P, S v.", "N, p, v.", "N, w v, v.", "S v & v.",
    "S v, & i v.", "P, S v & v.", "N, p, v & v.", "S v & v, t.", "P, S v, t.", "F, S v.",
    "S v, g.", "N, f, v.", "F, S v & v.", "S v; i v.", "S v, g.", "N, w v, v, t.", "F, S v, t.",
)  # fmt: skip
"""Y: a property's own sentence; S, N: the subject, N never a pronoun; v: what a sentence says of
it; p, P: an aside; t: a tail; f, F, g: asides and tails of the grammar; w: who or which; i: a
pronoun; &: and. Small letters stand within, capitals begin."""
MEDIAN, SPREAD = 68.0, 0.6
"""Of the drawn number of words a page (HotpotQA's passages: median 80, mean 89)."""
_TWICE = 0.2
"""Share of facts that a page says a second time."""
_JOINED = 0.4
"""Share of sentences that are joined to the one before."""
_CONNECTIVES = (", and ", ", and ", ", while ", "; ")
_OPENINGS = frozenset(
    "He She It They His Her Its Their The A An In On At For By After Before From With During "
    "Between Until Around Within Since Following As Under Over Throughout Early Late".split()
)
"""First words that are no names."""
_QUOTED = ("film", "book", "album", "tv_series", "paper")
"""Types whose names stand in quotation marks on about half of the pages."""
_MARK = 0xE000  # a private character stands for the objects of the page's k-th property
_MARKED = re.compile("([\ue000-\ue0ff])")
_WORD = re.compile(r"\w+")
_SLOT = re.compile(r"\{([^{}]*)\}")
_FILLED = re.compile(r"(?:\b([Aa]) )?\{([^{}]*)\}")
_BEFORE = re.compile(r"(?:^| )[Aa] $")
_ARTICLE = re.compile(r"\b([Aa]) (?=([A-Za-z0-9]+))")
_INVENTED = {
    "given": ("given0", "given1"), "family": ("family",), "place": ("place",), "word": ("word",),
}  # fmt: skip
_OBJECT = {"he": "him", "she": "her"}


_Piece = str | tuple[str, Any, bool]
"""Text, or a kind of slot with what it is filled from, and whether that begins with a capital."""
_Option = tuple[_Piece, ...]


class _Tongue:
    """Phrases for things of one type and facet: sentences compiled for one side."""

    def __init__(self, world: World, t: EntityType, facet: int, phrasing: Phrasing) -> None:
        self.pronoun, self.possessive = t.pronouns[facet % len(t.pronouns)].split("/")
        self.them = _OBJECT.get(self.pronoun, self.pronoun)
        self.who = "which" if self.pronoun == "it" else "who"
        self.reference = t.reference or SHORT
        self.noun = t.noun
        self.leads = [
            (frozenset(s.removesuffix(".alias") for s in _SLOT.findall(lead)) - {"s"}, lead)
            for lead in side(t.lead, phrasing)
        ]
        self.says: dict[str, tuple[str, ...]] = {}
        self.verbs: dict[str, tuple[str, ...]] = {}
        self.asides: dict[str, tuple[str, ...]] = {}
        self.tails: dict[str, tuple[str, ...]] = {}
        for p in world.schema.properties:
            if p.source != t.name:
                continue
            self.says[p.name] = side(p.document, phrasing)
            self.verbs[p.name] = tuple(
                s[4:-1] for s in self.says[p.name]
                if s.startswith("{s} ") and s[4:8] != "and " and s.count("{s}") == 1
                and not set(",;:") & set(s)
            )  # fmt: skip
            self.asides[p.name] = tuple(map(self.own, side(p.aside, phrasing)))
            self.tails[p.name] = tuple(map(self.own, side(p.tail, phrasing)))

    def own(self, text: str) -> str:
        """A text within a sentence about the subject: pronouns stand for it."""
        return (
            text.replace("{s}'s", self.possessive).replace("{its}", self.possessive)
            .replace("{it}", self.pronoun).replace("{him}", self.them)
        )  # fmt: skip

    def sentence(self, text: str, subject: str) -> str:
        """A property's sentence; "The film {s}" keeps its name."""
        text = self.own(text) if subject == self.pronoun else text
        first, found, rest = text.partition("{s}")
        if not found:
            return text
        if first or rest.startswith("'s"):
            noun = self.reference.removeprefix("the ")
            bare = first.rstrip().endswith((noun, self.noun))
            text = first + (NAME if bare or self.reference == SHORT else self.reference) + rest
        else:
            text = _capital(subject) + rest
        return text.replace("{s}'s", self.possessive).replace("{s}", self.reference)


class _Grammar:
    """Alternatives per symbol, with other symbols, numbers and years in braces."""

    def __init__(self, world: World, seed: int, phrasing: Phrasing) -> None:
        self._prose = {name: side(phrases, phrasing) for name, phrases in world.schema.prose}
        self._names = _invented(world, seed) | {
            "month": list(month_name[1:]), "season": ["spring", "summer", "autumn", "winter"],
        }  # fmt: skip
        self._compiled: dict[str, list[_Option]] = {}
        self._open: set[str] = set()  # being compiled: a symbol may lead back to itself
        self._year = 0

    def size(self, symbol: str) -> int:
        """Number of its alternatives; 0 if there is no such symbol."""
        return len(self._options(symbol)) if self._prose.get(symbol) else 0

    def said(self, symbol: str, draw: Callable[[], float], year: tuple[int, int],
             tongue: _Tongue, used: set[int]) -> str:  # fmt: skip
        """One expansion of a symbol; ``used`` holds the alternatives of it the page has had."""
        options = self._options(symbol)
        at = int(draw() * len(options))
        for _ in range(len(options)):
            if at not in used:
                break
            at = (at + 1) % len(options)
        used.add(at)
        out: list[str] = []
        self._write(options[at], draw, year, tongue, out)
        text = "".join(out).replace("hey was ", "hey were ")
        return _ARTICLE.sub(lambda m: m[1] + indefinite(m[2]), text)

    def _options(self, symbol: str) -> list[_Option]:
        found = self._compiled.get(symbol)
        if found is None:
            lines = self._prose.get(symbol)
            if not lines:
                raise WorldError(f"prose: no symbol {symbol!r} on this side")
            found = self._compiled[symbol] = []
            self._open.add(symbol)
            for line in lines:
                pieces = _SLOT.split(line)
                alone = len(pieces) == 3 and not (pieces[0] or pieces[2])
                if alone and pieces[1] in self._prose:  # so that a page takes each only once
                    found += self._options(pieces[1])
                else:
                    found.append(tuple(
                        self._slot(piece) if k % 2 else piece
                        for k, piece in enumerate(pieces) if piece
                    ))  # fmt: skip
            self._open.remove(symbol)
        return found

    def _slot(self, slot: str) -> _Piece:
        """Text of a slot; words to choose from where a symbol has no slots within."""
        if slot == "s":
            return "{s}"
        if slot in self._names:
            return "", self._names[slot], False
        if slot in ("year", "decade", "later", "its", "it", "him"):
            return slot, (), False
        if slot[0].isdigit():
            low, high = map(int, slot.split(".."))
            return "number", (low, high - low + 1), False
        capital = slot[0].isupper() and slot.lower() in self._prose
        symbol = slot.lower() if capital else slot
        options = self._options(symbol)
        if symbol not in self._open and all(len(o) == 1 and isinstance(o[0], str) for o in options):
            return "", [_capital(str(o[0])) if capital else str(o[0]) for o in options], False
        return "symbol", options, capital

    def _write(self, option: _Option, draw: Callable[[], float], year: tuple[int, int],
               tongue: _Tongue, out: list[str]) -> None:  # fmt: skip
        for piece in option:
            if isinstance(piece, str):
                out.append(piece)
                continue
            kind, data, capital = piece
            if not kind:
                out.append(data[int(draw() * len(data))])
            elif kind == "symbol":
                at = len(out)
                self._write(data[int(draw() * len(data))], draw, year, tongue, out)
                if capital:
                    out[at] = _capital(out[at])
            elif kind == "number":
                out.append(f"{data[0] + int(draw() * data[1]):,}")
            elif kind in ("year", "decade"):
                self._year = year[0] + int(draw() * (year[1] - year[0] + 1))
                out.append(str(self._year if kind == "year" else self._year // 10 * 10))
            elif kind == "later":
                out.append(str(min(self._year + 1 + int(draw() * 8), 2024)))
            else:
                out.append({"its": tongue.possessive, "it": tongue.pronoun}.get(kind, tongue.them))


def _invented(world: World, seed: int) -> dict[str, list[str]]:
    """Names that no entity has a word of, by slot."""
    taken = {w for names in (world.names, world.alias_of) for n in names for w in _WORD.findall(n)}
    pools: dict[str, list[str]] = {}
    for slot, kinds in _INVENTED.items():
        rng = stream(seed, "prose", slot)
        drawn = [w for kind in kinds for w in words(kind, 4000 // len(kinds), rng)]
        pools[slot] = [w for w in dict.fromkeys(drawn) if w and w not in taken]
    return pools


class ProseRenderer:
    """Renders pages of one world with one wording, as ``render.PageRenderer`` does."""

    def __init__(
        self, world: World, *, wording_seed: int = 0, phrasing: Phrasing = "train",
        distractors: int = 0,
    ) -> None:  # fmt: skip
        self._world, self._distractors = world, distractors
        self._seed = derive(wording_seed, "prose", "pages")
        self._tongues = [
            [_Tongue(world, t, f, phrasing) for f in range(max(1, len(t.facets)))]
            for t in world.schema.types
        ]
        self._grammar = _Grammar(world, self._seed, phrasing)
        self._formats = [None if p.is_relation else formatter(p) for p in world.schema.properties]
        self._dated = [p.value in ("date", "year") for p in world.schema.properties]
        self._plain = [
            [[compile_plain(t, d, f) for d in side(world.schema.distractors, phrasing)]
             for f in range(max(1, len(t.facets)))]
            for t in world.schema.types
        ] if distractors else []  # fmt: skip
        self._members = [world.entities_of(i) for i in range(len(world.schema.types))]

    def chunk(self, lo: int, hi: int) -> Chunk:
        """Render entities ``lo <= e < hi``."""
        texts: list[str] = []
        spots: list[tuple[int, int]] = []
        for entity in range(lo, hi):
            text, flat = _Page(self, entity).written()
            texts.append(text)
            spots += flat
        ends = np.array(spots, np.int32).reshape(-1, 2)
        return Chunk(texts, int(self._world.indptr[lo]), ends[:, 0], ends[:, 1])


class _Page:
    def __init__(self, renderer: ProseRenderer, entity: int) -> None:
        world = renderer._world
        self.renderer, self.entity = renderer, entity
        self.draw = Random(renderer._seed * 1_000_003 + entity).random
        self.type_index = int(world.type_of[entity])
        self.type = world.schema.types[self.type_index]
        self.tongue = renderer._tongues[self.type_index][int(world.facet_of[entity])]
        self.name, self.alias = world.names[entity], world.alias_of[entity]
        style = int(self.draw() * 2)
        self.groups: dict[str, list[str]] = {}
        self.first_object: dict[str, int] = {}
        years: list[int] = []
        for fact in world.facts_of(entity):
            p, write = world.schema.properties[fact.property], renderer._formats[fact.property]
            surface = world.names[fact.object] if write is None else write(fact.object, style)
            self.groups.setdefault(p.name, []).append(surface)
            self.first_object.setdefault(p.name, fact.object)
            if renderer._dated[fact.property]:
                years.append(
                    date.fromordinal(fact.object).year if p.value == "date" else fact.object
                )
        self.year = self._years(sorted(years))
        self.places = list(self.groups)
        self.used: dict[str, set[int]] = {}
        quoted = _QUOTED if self.draw() < 0.55 else ()
        schema = world.schema
        self.quoted = [
            schema.properties[schema.property_index(name)].target in quoted for name in self.places
        ]
        self.title = f'"{self.name}"' if self.type.name in quoted else self.name

    def _years(self, years: list[int]) -> tuple[int, int]:
        """The years in which details may lie: of a life's middle, or after a beginning."""
        if not years:
            return 1860, 2015
        low, high = years[0] + 1, min(years[0] + 45, 2023)
        if self.tongue.pronoun != "it":
            low = years[0] + 20
            high = min(years[0] + 60, years[-1] if len(years) > 1 else 2023, 2023)
        return min(low, 2023), max(low, high)

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.draw() * len(options))]

    def mark(self, text: str, name: str) -> str:
        return text.replace("{o}", chr(_MARK + self.places.index(name)))

    def written(self) -> tuple[str, list[tuple[int, int]]]:
        sentences = [self._lead()]
        words = MEDIAN * exp(SPREAD * self._normal())
        while self.left:
            sentences.append(self._sentence())
        said = sum(s.count(" ") + 1 for s in sentences)
        extra: list[str] = []
        extra += [
            self._say(name) for name in self.places
            if self.draw() < _TWICE and len(self.groups[name]) == 1
        ]  # fmt: skip
        extra += [self._distractor() for _ in range(self.renderer._distractors)]
        said += sum(s.count(" ") + 1 for s in extra)
        symbol = self.type.name
        for _ in range(self.renderer._grammar.size(symbol)):
            if said + 7 >= words:
                break
            extra.append(self._detail(symbol))
            said += extra[-1].count(" ") + 1
        for sentence in extra:
            sentences.insert(1 + int(self.draw() * len(sentences)), sentence)
        short = self.name.rpartition(" ")[2]
        text = " ".join(self._run_on(sentences)).replace(NAME, self.title).replace(SHORT, short)
        return self._marked(text)

    def _run_on(self, sentences: list[str]) -> list[str]:
        out = sentences[:1]
        for text in sentences[1:]:
            first, last = text.partition(" ")[0], out[-1]
            named = first[:1] in (NAME, SHORT) or _MARKED.match(first)
            if (first in _OPENINGS or named) and self.draw() < _JOINED and "; " not in last:
                text = text if named else text[0].lower() + text[1:]
                out[-1] = last[:-1] + self.pick(_CONNECTIVES) + text
            else:
                out.append(text)
        return out

    def _normal(self) -> float:
        return sum(self.draw() for _ in range(12)) - 6.0

    def _lead(self) -> str:
        have = set(self.groups)
        fitting = [lead for needs, lead in self.tongue.leads if needs <= have]
        lead = self.pick(fitting) if fitting else f"{{s}} is a {self.type.noun}."
        self.left = [name for name in self.groups if "{" + name + "}" not in lead]
        # Mostly in the schema's order, as lives are told
        rank = {name: i + 4 * self.draw() for i, name in enumerate(self.left)}
        self.left.sort(key=rank.__getitem__)
        opening = self.title
        if self.alias:
            form = self.type.alias
            opening = self.alias if form == "full" else opening
            if form and form != "full":
                opening += " (" + form.replace("{a}", self.alias) + ")"

        def fill(match: re.Match[str]) -> str:
            article, slot = match[1], match[2]
            name = slot.removesuffix(".alias")
            if slot == "s":
                said = opening
            elif name == slot:
                return (f"{article} " if article else "") + self.mark("{o}", name)
            else:
                alias = self.renderer._world.alias_of[self.first_object[name]]
                said = alias or self.groups[name][0]
            return article + indefinite(said) + said if article else said

        text = _FILLED.sub(fill, lead)
        if self.draw() < 0.5 and "," not in text[-40:]:
            tail = self._tail()
            text = f"{text[:-1]}, {tail}." if tail else text
        return text

    def _tail(self) -> str:
        for name in self.left:
            if self.tongue.tails[name]:
                self.left.remove(name)
                return self.mark(self.pick(self.tongue.tails[name]), name)
        return ""

    def _subject(self, named: bool) -> str:
        drawn = self.draw()
        if drawn < 0.55 and not named:
            return self.tongue.pronoun
        return self.tongue.reference if drawn < 0.8 else NAME

    def _say(self, name: str) -> str:
        text = self.pick(self.tongue.says[name])
        return _capital(self.mark(self.tongue.sentence(text, self._subject(False)), name))

    def _detail(self, symbol: str, full: bool = True) -> str:
        used = self.used.setdefault(symbol, set())
        text = self.renderer._grammar.said(symbol, self.draw, self.year, self.tongue, used)
        return _capital(text.replace("{s}", self._subject(False))) if full else text

    def _sentence(self) -> str:
        for _ in range(4):
            pattern = self.pick(PATTERNS)
            made = None if pattern == "Y" else self._joined(pattern)
            if made:
                return made
            if pattern == "Y":
                break
        return self._say(self.left.pop(0))

    def _joined(self, pattern: str) -> str | None:
        """The next facts in a pattern; None where they lack a form that it needs."""
        tongue, left, out = self.tongue, list(self.left), []
        last = pattern.rindex("v")
        for at, code in enumerate(pattern):
            if code in "vpPt":
                bank = {"v": tongue.verbs, "t": tongue.tails}.get(code, tongue.asides)
                end = at == last or code == "t"
                for name in left[:4]:
                    if bank[name] and (end or len(self.groups[name]) == 1):
                        break
                else:
                    return None
                left.remove(name)
                text = self.mark(self.pick(bank[name]), name)
                out.append(_capital(text) if code == "P" else text)
            elif code in "fFg":
                symbol = self.type.name + (" tail" if code == "g" else " aside")
                if not self.renderer._grammar.size(symbol):
                    return None
                text = self._detail(symbol, full=False)
                out.append(_capital(text) if code == "F" else text)
            elif code in "SN":
                subject = self._subject(code == "N")
                out.append(subject if at else _capital(subject))
            elif code in "wi":
                out.append(tongue.who if code == "w" else tongue.pronoun)
            else:
                out.append("and" if code == "&" else code)
        self.left = left
        return "".join(out)

    def _distractor(self) -> str:
        plain = self.renderer._plain[self.type_index][
            int(self.renderer._world.facet_of[self.entity])
        ]
        members = self.renderer._members[self.type_index]
        at = int(self.draw() * len(members))
        other = int(members[at if int(members[at]) != self.entity else at - 1])
        text = plain[int(self.draw() * len(plain))][int(self.draw() * 3)]
        return text.replace("{x}", self.renderer._world.names[other])

    def _marked(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Write the objects where their marks stand; a fact's place is the first."""
        spans: dict[int, list[tuple[int, int]]] = {}
        out: list[str] = []
        at = 0
        for k, piece in enumerate(_MARKED.split(text)):
            if k % 2 == 0:
                out.append(piece)
                at += len(piece)
                continue
            place = ord(piece) - _MARK
            surfaces = self.groups[self.places[place]]
            if _BEFORE.search(out[-1]):
                out[-1] = out[-1][:-1] + indefinite(surfaces[0])
                at += len(indefinite(surfaces[0])) - 1
            mark = '"' if self.quoted[place] else ""
            at += len(mark)
            spots, where = [], at
            for i, surface in enumerate(surfaces):
                if i:
                    where += (5 if i == len(surfaces) - 1 else 2) + 2 * len(mark)
                spots.append((where, where + len(surface)))
                where += len(surface)
            spans.setdefault(place, spots)
            out.append(listed([mark + surface + mark for surface in surfaces]))
            at = where + len(mark)
        flat = [spot for place in range(len(self.places)) for spot in spans[place]]
        return "".join(out), flat


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
