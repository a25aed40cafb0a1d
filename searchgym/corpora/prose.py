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
from statistics import NormalDist
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
"""Median and spread of the number of words a page (HotpotQA's passages: median 80, mean 89)."""
_TWICE = 0.1
"""Share of facts that a page says a second time."""
_MODERN = 1850
"""First year of details, which speak of railways and newspapers."""
_JOINED = 0.4
"""Share of sentences that are joined to the one before."""
_LONG = 26
"""Words of two sentences that are not joined any more; no third joins two."""
_CONNECTIVES = (", and ", ", and ", ", while ", "; ")
_OPENINGS = frozenset(
    "He She It They His Her Its Their The A An In On At For By After Before From With During "
    "Between Until Around Within Since Following As Under Over Throughout Early Late".split()
)
"""First words that are no names."""
_QUOTED = ("film", "book", "album", "tv_series", "paper")
"""Types whose names stand in quotation marks on about half of the pages."""
_MARK = 0xE000  # private characters stand for the objects of the schema's k-th property
_MARKED = re.compile("([\ue000-\uf8ff])")
_OPENING, _SUBJECT = "\2", "\3"  # stand for a page's first mention and for a detail's subject
_WORD = re.compile(r"\w+")
_SLOT = re.compile(r"\{([^{}]*)\}")
_ALIAS = re.compile(r"(?:\b([Aa]) )?\{([^{}]*)\.alias\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=([A-Za-z0-9]+))")
_BEFORE = (" a ", " A ", '"A ')
_INVENTED = {
    "given": ("given0", "given1"), "family": ("family",), "place": ("place",), "word": ("word",),
}  # fmt: skip
_OBJECT = {"he": "him", "she": "her"}
_CODES = [
    tuple(p.replace("&", "and") for p in re.findall(r"[SNvpPtfFgwi]|[^SNvpPtfFgwi]+", pattern))
    for pattern in PATTERNS
]
_LAST = [max((i for i, c in enumerate(codes) if c == "v"), default=0) for codes in _CODES]
_NORMAL = NormalDist(0.0, SPREAD).inv_cdf

_WORDS, _PART, _NUMBER, _LATER, _YEAR, _DECADE = range(6)
_YEARS = {"later": _LATER, "year": _YEAR, "decade": _DECADE}
_SEASONS = ("spring", "summer", "autumn", "winter")


_Slot = tuple[int, Any, int, str]
"""A hole of an option: its kind, what fills it, how many such, and an article before it."""
_Option = tuple[str, tuple[_Slot, ...], bool]
"""A text with ``%s`` where slots are filled in, and whether words fill them all. Plain tuples: a
page unpacks hundreds, and Python unpacks those fastest."""


class _Tongue:
    """Phrases for things of one type and facet: sentences compiled for one side."""

    def __init__(self, world: World, t: EntityType, facet: int, phrasing: Phrasing) -> None:
        self.pronoun, self.possessive = t.pronouns[facet % len(t.pronouns)].split("/")
        self.them = _OBJECT.get(self.pronoun, self.pronoun)
        self.who = "which" if self.pronoun == "it" else "who"
        self.reference = t.reference or SHORT
        self.noun = t.noun
        self.subjects = (self.pronoun, self.reference, NAME)
        self.capitals = tuple(map(_capital, self.subjects))
        properties = world.schema.properties
        own = {p.name: i for i, p in enumerate(properties) if p.source == t.name}
        self._leads = [self._lead(lead, own) for lead in side(t.lead, phrasing)]
        self._fitting: dict[tuple[int, ...], list[tuple[frozenset[int], str]]] = {}
        empty: list[tuple[str, ...]] = [()] * len(properties)
        self.banks = {code: empty.copy() for code in "vpPt"}
        self.says: list[list[tuple[str, ...]]] = [[]] * len(properties)
        for i, p in enumerate(properties):
            if p.source != t.name:
                continue
            mark = chr(_MARK + i)
            document = side(p.document, phrasing)
            self.says[i] = [
                tuple(_capital(self._sentence(s, subject).replace("{o}", mark)) for s in document)
                for subject in self.subjects
            ]
            self.banks["v"][i] = tuple(
                s[4:-1].replace("{o}", mark) for s in document
                if s.startswith("{s} ") and s[4:8] != "and " and s.count("{s}") == 1
                and not set(",;:") & set(s)
            )  # fmt: skip
            asides = [self._own(s).replace("{o}", mark) for s in side(p.aside, phrasing)]
            self.banks["p"][i], self.banks["P"][i] = tuple(asides), tuple(map(_capital, asides))
            self.banks["t"][i] = tuple(
                self._own(s).replace("{o}", mark) for s in side(p.tail, phrasing)
            )

    def _lead(self, lead: str, own: dict[str, int]) -> tuple[frozenset[int], frozenset[int], str]:
        """A first sentence: what it needs, what it states and its text."""
        slots = set(_SLOT.findall(lead)) - {"s"}
        lead = lead.replace("{s}", _OPENING)
        for slot in slots & set(own):
            lead = lead.replace("{" + slot + "}", chr(_MARK + own[slot]))
        needs = frozenset(own[slot.removesuffix(".alias")] for slot in slots)
        return needs, frozenset(own[slot] for slot in slots & set(own)), lead

    def fitting(self, have: tuple[int, ...]) -> list[tuple[frozenset[int], str]]:
        """First sentences for a page with these properties, and what each of them states."""
        if have not in self._fitting:
            found = [(states, lead) for needs, states, lead in self._leads if needs <= {*have}]
            self._fitting[have] = found or [(frozenset(), f"{_OPENING} is a {self.noun}.")]
        return self._fitting[have]

    def _own(self, text: str) -> str:
        """A text within a sentence about the subject: pronouns stand for it."""
        return (
            text.replace("{s}'s", self.possessive).replace("{its}", self.possessive)
            .replace("{it}", self.pronoun).replace("{him}", self.them)
        )  # fmt: skip

    def _sentence(self, text: str, subject: str) -> str:
        """A property's sentence; "The film {s}" keeps its name."""
        text = self._own(text) if subject == self.pronoun else text
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
    """Alternatives per symbol, with other symbols, numbers and years in braces, in the words of
    one side and with the pronouns of one tongue."""

    def __init__(
        self, prose: dict[str, tuple[str, ...]], names: dict[str, list[str]], tongue: _Tongue
    ) -> None:
        self._prose, self._names = prose, names
        self._pronouns = {
            "s": _SUBJECT, "its": tongue.possessive, "it": tongue.pronoun, "him": tongue.them,
        }  # fmt: skip
        self._compiled: dict[tuple[str, bool], list[_Option]] = {}
        self._open: set[tuple[str, bool]] = set()  # being compiled: some lead back to themselves
        self._year = 0

    def options(self, symbol: str, capital: bool) -> list[_Option]:
        """Alternatives of a symbol, none if there is no such; with a capital they begin so."""
        key = symbol, capital
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = []
            self._open.add(key)
            for line in self._prose.get(symbol, ()):
                pieces = _SLOT.split(line)
                alone = len(pieces) == 3 and not (pieces[0] or pieces[2])
                if alone and pieces[1] in self._prose:  # so that a page takes each only once
                    found += self.options(pieces[1], capital)
                else:
                    found.append(self._option(line, capital))
            self._open.remove(key)
        return found

    def said(self, options: list[_Option], draw: Callable[[], float], year: tuple[int, int],
             used: set[int]) -> str:  # fmt: skip
        """One expansion; ``used`` holds the alternatives that the page has had."""
        at = int(draw() * len(options))
        for _ in range(len(options)):
            if at not in used:
                break
            at = (at + 1) % len(options)
        used.add(at)
        return self._filled(options[at], draw, year)

    def _filled(self, option: _Option, draw: Callable[[], float], year: tuple[int, int]) -> str:
        text, slots, plain = option
        if plain:
            return text % tuple([data[int(draw() * n)] for _, data, n, _ in slots])
        parts = []
        for kind, data, n, article in slots:
            if kind == _WORDS:
                part = data[int(draw() * n)]
            elif kind == _PART:
                part = self._filled(data[int(draw() * len(data))], draw, year)
            elif kind == _NUMBER:
                part = f"{data + int(draw() * n):,}"
            elif kind == _LATER:
                part = str(min(self._year + 1 + int(draw() * 8), 2024))
            else:
                self._year = year[0] + int(draw() * (year[1] - year[0] + 1))
                part = str(self._year if kind == _YEAR else self._year // 10 * 10)
            parts.append(article + indefinite(part) + part if article else part)
        return text % tuple(parts)

    def _option(self, line: str, capital: bool) -> _Option:
        text = ""
        slots: list[_Slot] = []
        for k, piece in enumerate(_SLOT.split(line)):
            if k % 2 == 0 or piece in self._pronouns:
                text += self._pronouns[piece] if k % 2 else piece.replace("%", "%%")
                continue
            article = text[-2] if text.endswith(_BEFORE) or text in ("a ", "A ") else ""
            text = text[: -2 if article else None]
            first = capital and not text
            article = article.upper() if first else article
            slots.append(self._slot(piece, first and not article, article))
            text += "%s"
        text = _ARTICLE.sub(lambda m: m[1] + indefinite(m[2]), text)
        plain = all(kind == _WORDS and not article for kind, _, _, article in slots)
        return _capital(text) if capital else text, tuple(slots), plain

    def _slot(self, slot: str, capital: bool, article: str) -> _Slot:
        """Words that fill a slot; words to choose from where a symbol has no slots within."""
        if slot in self._names:
            return _WORDS, self._names[slot], len(self._names[slot]), article
        if slot in _YEARS:
            return _YEARS[slot], None, 0, article
        if slot[0].isdigit():
            low, high = map(int, slot.split(".."))
            return _NUMBER, low, high - low + 1, article
        if slot not in self._prose:
            capital, slot = True, slot.lower()
        options = self.options(slot, capital)
        if not options and (slot, capital) not in self._open:
            raise WorldError(f"prose: no symbol {slot!r} on this side")
        if (slot, capital) in self._open or any(slots for _, slots, _ in options):
            return _PART, options, 0, article
        words = [text % () for text, _, _ in options]
        words = [article + indefinite(w) + w for w in words] if article else words
        return _WORDS, words, len(words), ""


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
        prose = {name: side(phrases, phrasing) for name, phrases in world.schema.prose}
        prose |= {"month": tuple(month_name[1:]), "season": _SEASONS}
        self._names = _invented(world, self._seed)
        spoken: dict[str, _Grammar] = {}
        self._tongues: list[list[_Tongue]] = []
        self._grammars: list[list[_Grammar]] = []
        for t in world.schema.types:
            tongues = [_Tongue(world, t, f, phrasing) for f in range(max(1, len(t.facets)))]
            self._tongues.append(tongues)
            self._grammars.append([
                spoken.setdefault(tongue.pronoun, _Grammar(prose, self._names, tongue))
                for tongue in tongues
            ])  # fmt: skip
        self._formats = [None if p.is_relation else formatter(p) for p in world.schema.properties]
        self._quotable = {i for i, p in enumerate(world.schema.properties) if p.target in _QUOTED}
        self._dated = [
            {"date": 1, "year": 2}.get(p.value or "", 0) for p in world.schema.properties
        ]
        self._plain = [
            [[compile_plain(t, d, f) for d in side(world.schema.distractors, phrasing)]
             for f in range(max(1, len(t.facets)))]
            for t in world.schema.types
        ] if distractors else []  # fmt: skip
        self._members = [world.entities_of(i) for i in range(len(world.schema.types))]

    def chunk(self, lo: int, hi: int) -> Chunk:
        """Render entities ``lo <= e < hi``."""
        world = self._world
        ends = world.indptr[lo : hi + 1].tolist()
        first = ends[0]
        rows = slice(first, ends[-1])
        properties, objects = world.property_of[rows].tolist(), world.object_of[rows].tolist()
        texts: list[str] = []
        spots: list[tuple[int, int]] = []
        for entity, begin, end in zip(range(lo, hi), ends, ends[1:], strict=False):
            part = slice(begin - first, end - first)
            text, flat = _Page(self, entity, properties[part], objects[part]).written()
            texts.append(text)
            spots += flat
        places = np.array(spots, np.int32).reshape(-1, 2)
        return Chunk(texts, first, places[:, 0], places[:, 1])


class _Page:
    def __init__(
        self, renderer: ProseRenderer, entity: int, properties: list[int], objects: list[int]
    ) -> None:
        world = renderer._world
        self.renderer, self.entity = renderer, entity
        self.draw = draw = Random(renderer._seed * 1_000_003 + entity).random
        self.type_index, facet = int(world.type_of[entity]), int(world.facet_of[entity])
        self.type = world.schema.types[self.type_index]
        self.tongue = renderer._tongues[self.type_index][facet]
        self.grammar = renderer._grammars[self.type_index][facet]
        self.name = world.names[entity]
        style = int(draw() * 2)
        self.groups: dict[int, list[str]] = {}
        self.properties, self.objects = properties, objects
        names, formats, dated = world.names, renderer._formats, renderer._dated
        years: list[int] = []
        born = False
        for p, value in zip(properties, objects, strict=True):
            write = formats[p]
            surface = names[value] if write is None else write(value, style)
            if p in self.groups:
                self.groups[p].append(surface)
            else:
                self.groups[p] = [surface]
            if dated[p]:
                born = born or dated[p] == 1
                years.append(date.fromordinal(value).year if dated[p] == 1 else value)
        self.year = self._years(sorted(years), born)
        self.used: dict[str, set[int]] = {}
        self.quoted = draw() < 0.55
        quoted = self.quoted and self.type.name in _QUOTED
        self.title = f'"{self.name}"' if quoted else self.name

    def _years(self, years: list[int], born: bool) -> tuple[int, int]:
        """The years in which details may lie: of a life's middle, or after a beginning."""
        if not years:
            return 1860, 2015
        low = years[0] + 20 if born else max(years[0] + 1, _MODERN)
        high = min(low + 45, 2023)
        if born:
            high = min(low + 40, years[-1] if len(years) > 1 else 2023, 2023)
        return min(low, high), high

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.draw() * len(options))]

    def written(self) -> tuple[str, list[tuple[int, int]]]:
        draw, groups = self.draw, self.groups
        sentences = [self._lead()]
        words = MEDIAN * exp(_NORMAL(draw() or 0.5))
        while self.left:
            sentences.append(self._sentence())
        extra = [self._say(p) for p in groups if draw() < _TWICE and len(groups[p]) == 1]
        extra += [self._distractor() for _ in range(self.renderer._distractors)]
        said = sum([s.count(" ") + 1 for s in sentences]) + sum([s.count(" ") + 1 for s in extra])
        options = self.grammar.options(self.type.name, True)
        used: set[int] = set()
        while said + 7 < words and len(used) < len(options):
            extra.append(self._detail(options, used))
            said += extra[-1].count(" ") + 1
        for sentence in extra:
            sentences.insert(1 + int(draw() * len(sentences)), sentence)
        text = self._run_on(sentences).replace(NAME, self.title)
        text = text.replace(SHORT, self.name.rpartition(" ")[2])
        return self._marked(text.replace("hey was ", "hey were "))

    def _run_on(self, sentences: list[str]) -> str:
        draw = self.draw
        out, length = sentences[0], sentences[0].count(" ")
        for text in sentences[1:]:
            first = text[0]
            named = first < " " or first >= "\ue000"
            more = text.count(" ")
            if (
                length + more < _LONG and (named or text.partition(" ")[0] in _OPENINGS)
                and draw() < _JOINED
            ):  # fmt: skip
                text = text if named else first.lower() + text[1:]
                out, length = out[:-1] + self.pick(_CONNECTIVES) + text, _LONG
            else:
                out, length = f"{out} {text}", more
        return out

    def _lead(self) -> str:
        draw = self.draw
        fitting = self.tongue.fitting(tuple(self.groups))
        states, text = fitting[int(draw() * len(fitting))]
        # Mostly in the schema's order, as lives are told
        left = [p for p in self.groups if p not in states]
        self.left = [p for _, p in sorted([(i + 4 * draw(), p) for i, p in enumerate(left)])]
        opening, alias = self.title, self.renderer._world.alias_of[self.entity]
        if alias:
            form = self.type.alias
            opening = alias if form == "full" else opening
            if form and form != "full":
                opening += " (" + form.replace("{a}", alias) + ")"
        text = text.replace(_OPENING, opening)
        if "{" in text:
            text = _ALIAS.sub(self._adjective, text)
        if draw() < 0.5 and "," not in text[-40:]:
            tails = self.tongue.banks["t"]
            for p in self.left:
                if tails[p]:
                    self.left.remove(p)
                    return f"{text[:-1]}, {self.pick(tails[p])}."
        return text

    def _adjective(self, match: re.Match[str]) -> str:
        """A country's adjective, say, or its name where there is none."""
        p = self.renderer._world.schema.property_index(match[2])
        said = (
            self.renderer._world.alias_of[self.objects[self.properties.index(p)]]
            or self.groups[p][0]
        )
        return match[1] + indefinite(said) + said if match[1] else said

    def _subject(self) -> int:
        """Number of a way to name the subject: pronoun, short reference, name."""
        drawn = self.draw()
        return 0 if drawn < 0.45 else 1 if drawn < 0.72 else 2

    def _say(self, p: int) -> str:
        return self.pick(self.tongue.says[p][self._subject()])

    def _detail(self, options: list[_Option], used: set[int]) -> str:
        text = self.grammar.said(options, self.draw, self.year, used)
        if _SUBJECT in text:
            at = self._subject()
            at += at == 0 and text[1] == ","  # no "He, who …"
            if text[0] == _SUBJECT:
                text = self.tongue.capitals[at] + text[1:]
            text = text.replace(_SUBJECT, self.tongue.subjects[at])
        return text

    def _sentence(self) -> str:
        for _ in range(4):
            at = int(self.draw() * len(PATTERNS))
            if PATTERNS[at] == "Y":
                break
            made = self._joined(_CODES[at], _LAST[at])
            if made:
                return made
        return self._say(self.left.pop(0))

    def _joined(self, codes: Sequence[str], last: int) -> str | None:
        """The next facts in a pattern; None where they lack a form that it needs."""
        tongue, left, out = self.tongue, self.left.copy(), []
        banks = tongue.banks
        for at, code in enumerate(codes):
            if code in banks:
                bank, end = banks[code], at == last or code == "t"
                for p in left[:4]:
                    if bank[p] and (end or len(self.groups[p]) == 1):
                        break
                else:
                    return None
                left.remove(p)
                code = self.pick(bank[p])
            elif code in ("f", "F", "g"):
                symbol = self.type.name + (" tail" if code == "g" else " aside")
                options = self.grammar.options(symbol, code == "F")
                if not options:
                    return None
                used = self.used.setdefault(symbol, set())
                code = self.grammar.said(options, self.draw, self.year, used)
            elif code in ("S", "N"):
                number = self._subject() if code == "S" else 1 + (self.draw() < 0.2)
                code = (tongue.subjects if at else tongue.capitals)[number]
            elif code in ("w", "i"):
                code = tongue.who if code == "w" else tongue.pronoun
            out.append(code)
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
        pieces = _MARKED.split(text)
        quotable = self.renderer._quotable
        out, at = [pieces[0]], len(pieces[0])
        for k in range(1, len(pieces), 2):
            p = ord(pieces[k]) - _MARK
            surfaces = self.groups[p]
            if out[-1].endswith(_BEFORE) or out[-1] in ("a ", "A "):
                article = indefinite(surfaces[0])
                out[-1] = out[-1][:-1] + article
                at += len(article) - 1
            mark = '"' if self.quoted and p in quotable else ""
            where = at + len(mark)
            if len(surfaces) == 1:
                said = mark + surfaces[0] + mark
                spots = [(where, where + len(surfaces[0]))]
            else:
                spots = []
                for i, surface in enumerate(surfaces):
                    if i:
                        where += (5 if i == len(surfaces) - 1 else 2) + 2 * len(mark)
                    spots.append((where, where + len(surface)))
                    where += len(surface)
                said = listed([mark + surface + mark for surface in surfaces])
            spans.setdefault(p, spots)
            rest = pieces[k + 1]
            out += said, rest
            at += len(said) + len(rest)
        return "".join(out), [spot for p in self.groups for spot in spans[p]]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
