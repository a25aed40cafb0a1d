"""Mentions and answer spans of a text, found by shape alone: no tagger, no word lists of names;
and passages as candidates see them, title and text tokenised together, cached.

Kinds: ``name`` (a run of capitalised words), ``part`` (a piece of such a run), ``quote``,
``date``, ``year``, ``number``, ``quantity`` (number with the noun it counts), ``predicate`` (what
follows "is a"), ``head`` (the last words of a predicate), ``word`` (a lower-case phrase after
"as", "for", …).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.text import bare_title
from searchgym.utils.english import (
    AUXILIARIES,
    MONTHS,
    NUMBER_WORDS,
    ORDINALS,
    STOP,
    Words,
    fold,
    tokenise,
)


class Found(NamedTuple):
    """A span in words: ``words.slice(first, last)``."""

    first: int
    last: int
    kind: str


_JOINERS = frozenset(
    "of the de la le van von der den du del di da al el y and & for in at on to".split()
)
_SPLITTERS = frozenset("and in at on to for".split())
_YEAR = re.compile(r"^(1[0-9]|20)\d\d$")
_NUMBER = re.compile(r"^\d[\d.,]*(st|nd|rd|th|s|k|m|bn|cm|km|kg|ft|mm)?$")
_OPENERS = frozenset('"“”«‘')
_CUT = frozenset(
    """of in that who which for by from on at with whose where and or but to located based set known
    born founded released written directed produced published best as near when since also made
    created developed performed recorded starring featuring owned used native formed""".split()
)
_LEADS = frozenset("a an the".split())
_AS = frozenset("as become became called named like into".split())


def _dates(w: Words, body: int) -> Iterator[Found]:
    """Dates: "5 May 1990", "May 5, 1990", "May 1990", "May 5"."""
    n = len(w.lower)
    i = body
    while i < n:
        if w.lower[i] in MONTHS and w.capital[i]:
            first, last = i, i + 1
            if i > body and _day(w.lower[i - 1]) and w.gap[i - 1] == " ":
                first = i - 1
            elif last < n and _day(w.lower[last]) and w.gap[i] == " ":
                last += 1
            if last < n and _YEAR.match(w.lower[last]) and w.gap[last - 1] in (" ", ", ", " , "):
                last += 1
            if last - first > 1:
                yield Found(first, last, "date")
                i = last
                continue
        i += 1


def _day(lower: str) -> bool:
    digits = lower.rstrip("stndrh")
    return digits.isdigit() and 1 <= int(digits) <= 31


def _numbers(w: Words, body: int) -> Iterator[Found]:
    n = len(w.lower)
    for i in range(body, n):
        word = w.lower[i]
        if _YEAR.match(word):
            yield Found(i, i + 1, "year")
            if (
                i + 1 < n
                and _YEAR.match(w.lower[i + 1])
                and w.gap[i].strip() in ("-", "–", "to", "and")
            ):
                yield Found(i, i + 2, "year")
        elif (word[0].isdigit() and _NUMBER.match(word)) or (
            word in NUMBER_WORDS and word != "one"
        ):
            last = i + 1
            while last < n and w.gap[last - 1] in (",", ".") and w.lower[last].isdigit():
                last += 1
            if last < n and w.lower[last] in ("million", "billion", "thousand", "hundred"):
                last += 1
            yield Found(i, last, "number")
            following = w.lower[last] if last < n and w.gap[last - 1] == " " else ""
            if following.isalpha() and following not in STOP and not w.capital[last]:
                yield Found(i, last + 1, "quantity")
        elif word in ORDINALS and i + 1 < n and w.gap[i] == " " and w.lower[i + 1] not in STOP:
            yield Found(i, i + 2, "quantity")


def _quotes(w: Words, body: int) -> Iterator[Found]:
    i, n = body, len(w.lower)
    while i < n:
        before = w.gap[i - 1] if i else ""
        if before and before[-1] in _OPENERS:
            for last in range(i + 1, min(n, i + 14) + 1):
                if any(c in _OPENERS or c == "’" for c in w.gap[last - 1]):
                    if i < last:
                        yield Found(i, last, "quote")
                    i = last
                    break
            else:
                i += 1
                continue
            continue
        i += 1


def _name_like(w: Words, i: int) -> bool:
    """Capitalised, and no month of a date ("18 December 1888 in Tarsk" holds one name)."""
    if not w.capital[i] or w.lower[i] == "i":
        return False
    if w.lower[i] not in MONTHS:
        return True
    after = w.lower[i + 1][0] if i + 1 < len(w.lower) else ""
    return not (after.isdigit() or (i and w.lower[i - 1][0].isdigit()))


def _runs(w: Words, body: int) -> Iterator[tuple[int, int]]:
    """Maximal runs of capitalised words, joined by up to two small words."""
    n = len(w.lower)
    i = body
    while i < n:
        if not (_name_like(w, i) or (w.lower[i][0].isdigit() and _opens_numbered(w, i))):
            i += 1
            continue
        first = i
        last = i + 1
        while last < n and w.sentence[last] == w.sentence[first]:
            step = _joined(w, last)
            if not step:
                break
            last = step
        if w.lower[first] in STOP and last - first > 1 and _begins(w, first, body):
            first += 1
            while first < last - 1 and not (w.capital[first] or w.lower[first][0].isdigit()):
                first += 1
        if not (last - first == 1 and (w.lower[first] in STOP or w.lower[first] in MONTHS)):
            yield first, last
        i = last


def _begins(w: Words, i: int, body: int) -> bool:
    return i == body or w.sentence[i - 1] != w.sentence[i]


def _opens_numbered(w: Words, i: int) -> bool:
    """ "2012 Summer Olympics" but not "1990 The"."""
    if i + 1 >= len(w.lower) or w.gap[i] != " ":
        return False
    return w.capital[i + 1] and w.lower[i + 1] not in STOP and w.lower[i + 1] not in MONTHS


def _joined(w: Words, i: int) -> int:
    """Return the index up to which the run goes on if word ``i`` belongs to it, else 0."""
    gap = w.gap[i - 1]
    plain = gap in (" ", "-", " & ", "/", ": ") or (gap == ". " and len(w.lower[i - 1]) <= 2)
    if not plain:
        return 0
    if _name_like(w, i) or (w.lower[i][0].isdigit() and len(w.lower[i]) <= 4 and gap == " "):
        return i + 1
    for reach in (1, 2):
        j = i + reach
        if j >= len(w.lower) or not all(w.lower[k] in _JOINERS for k in range(i, j)):
            return 0
        if any(w.gap[k] not in (" ", " & ") for k in range(i, j)):
            return 0
        if _name_like(w, j):
            return j + 1
    return 0


def _names(w: Words, body: int) -> Iterator[Found]:
    before: tuple[int, int] | None = None
    for first, last in _runs(w, body):
        cuts = [k for k in range(first + 1, last - 1) if w.lower[k] in _SPLITTERS]
        if not cuts or not _sprawls(w, first, last, cuts):
            yield Found(first, last, "name")
        elif w.lower[cuts[0]] != "and" and last - first <= 7:  # a title after all? "Voyage for X"
            yield Found(first, last, "part")
        yield from _pieces(w, first, last, cuts)
        if before and before[1] == first and _place_pair(w, *before, last):
            yield Found(before[0], last, "name")
        follows = last < len(w.lower) and w.gap[last - 1] == " " and not w.capital[last]
        if follows and last - first == 1 and not _function_word(w.lower[last]):
            yield Found(first, last + 1, "part")
        before = (first, last)


def _function_word(lower: str) -> bool:
    return lower in STOP or lower in AUXILIARIES


def _sprawls(w: Words, first: int, last: int, cuts: list[int]) -> bool:
    """ "Wilton Mall in Wilton", "Simon Cowell and Fantasia Barrino": two names, not one."""
    if last - first > 7:
        return True
    cut = cuts[0]
    if w.lower[cut] == "and":
        return cut - first >= 2 and last - cut > 2
    return w.lower[cut] in ("in", "at", "on", "for") and w.lower[first] not in STOP


def _place_pair(w: Words, first: int, middle: int, last: int) -> bool:
    """ "Portland, Oregon" but not "Paul Lynde, Alice Ghostley"."""
    if w.gap[middle - 1] != ", " or w.sentence[first] != w.sentence[middle]:
        return False
    short = middle - first <= 3 and last - middle <= 3
    located = first == 0 or w.lower[first - 1] in ("in", "at", "near", "from", "of", "to")
    return short and (located or w.lower[last - 1] in ("jr", "sr", "inc", "ltd", "d.c"))


def _pieces(w: Words, first: int, last: int, cuts: list[int]) -> Iterator[Found]:
    """Parts of a run: cut at and/in/at/…, without a leading article or number."""
    edges = [first - 1, *cuts, last]
    if cuts:
        for a, b in itertools.pairwise(edges):
            inner = a + 1
            while inner < b and w.lower[inner] in STOP:
                inner += 1
            end = b
            while end > inner and w.lower[end - 1] in STOP:
                end -= 1
            if inner < end:
                yield Found(inner, end, "part")
    if last - first > 2 and not cuts:
        of = [k for k in range(first + 1, last - 1) if w.lower[k] == "of"]
        if not of:
            yield Found(first + 1, last, "part")
            if last - first == 3:
                yield Found(first, last - 1, "part")


def _predicates(w: Words, body: int) -> Iterator[Found]:
    """Return what follows "is a", up to the first word that opens a new phrase."""
    n = len(w.lower)
    for i in range(body, n):
        lead = w.lower[i]
        if lead not in _LEADS or i == 0:
            continue
        before = w.lower[i - 1]
        comma = w.gap[i - 1] in (", ", " (") and not w.capital[i]
        if (
            before not in ("is", "was", "are", "were", "being", "be")
            and before not in _AS
            and not comma
        ):
            continue
        yield from _phrase(w, i + 1)
    for i in range(body, n - 1):
        plain = w.gap[i] == " " and not w.capital[i + 1] and w.lower[i + 1] not in STOP
        if plain and w.lower[i] in ("is", "was", "are", "were", "as"):
            yield from _phrase(w, i + 1, limit=3)


def _phrase(w: Words, first: int, limit: int = 9) -> Iterator[Found]:
    n, last = len(w.lower), first
    while last < n and last - first < limit and w.lower[last] not in _CUT:
        if last > first and w.gap[last - 1] not in (" ", "-", ", ", '"', ' "', '" '):
            break
        last += 1
    while last > first and w.lower[last - 1] in STOP:
        last -= 1
    if last <= first:
        return
    yield Found(first, last, "predicate")
    if last - first in (2, 3):  # "a jazz band", "an automotive company": what comes before the noun
        yield Found(first, last - 1, "head")
    for length in (1, 2):
        if last - first > length and w.lower[last - length] not in STOP:
            yield Found(last - length, last, "head")
    parts = [k for k in range(first, last - 1) if w.gap[k] == ", "]
    if parts:
        yield Found(first, parts[0] + 1, "head")


def _plain(w: Words, body: int) -> Iterator[Found]:
    """A word or two after a preposition, up to a pause: "is set in *space*."."""
    n = len(w.lower)
    for i in range(body, n - 1):
        if w.lower[i] not in _BEFORE_PLAIN or w.gap[i] != " ":
            continue
        last = i + 1
        while last < n and last - i <= 3 and _is_plain(w, last):
            last += 1
            if w.gap[last - 1] not in (" ", "-"):
                break
        ends = last == n or w.gap[last - 1] not in (" ", "-") or w.lower[last] in _CUT
        if ends and i + 1 < last <= i + 3:
            yield Found(i + 1, last, "word")


_BEFORE_PLAIN = frozenset("in of for as to with into at by is was".split())


def _is_plain(w: Words, i: int) -> bool:
    return w.lower[i].isalpha() and not w.capital[i] and not _function_word(w.lower[i])


def find_spans(words: Words, body: int = 0) -> list[Found]:
    """All spans from word ``body`` on, in order of position, one per pair of bounds.

    Where two rules find the same bounds the more telling kind stays (dates before names, …).
    """
    kind_of: dict[tuple[int, int], str] = {}
    for rule in (_dates, _quotes, _numbers, _names, _predicates, _plain):
        for span in rule(words, body):
            kind_of.setdefault((span.first, span.last), span.kind)
    for (a, b), kind in list(kind_of.items()):
        if kind == "date":  # its day is no number of anything
            for inside in ((a, a + 1), (b - 1, b), (a + 1, a + 2)):
                if kind_of.get(inside) == "number":
                    del kind_of[inside]
    return [Found(a, b, kind) for (a, b), kind in sorted(kind_of.items())]


class TokenizedPassage(NamedTuple):
    """A tokenised passage. Word index 0 … ``body`` - 1 is the title (sentence 0)."""

    title: str
    words: Words
    """Words of ``f"{title}. {text}"``."""
    body: int
    """Index of the text's first word."""
    offset: int
    """Characters before the text: a span's place in ``Passage.text`` is ``start - offset``."""
    spans: tuple[Found, ...]
    norms: tuple[str, ...]
    """Normalised text of each span."""
    bounds: NDArray[np.int64]
    """(M, 2) word indices of each span."""
    sentence_starts: NDArray[np.int64]
    """(S,) index of the first word of each sentence."""
    texts: tuple[str, ...]
    """Text of each span as it stands in the passage."""
    named: tuple[tuple[int, int], ...]
    """(span, its sentence) of each span that is a name, a quotation or a title."""

    def span_text(self, index: int) -> str:
        return self.texts[index]

    @property
    def text(self) -> str:
        """The passage's text without its title: with ``title``, what ``analyse`` was given."""
        return self.words.text[self.offset :]


def _join(title: Words, text: Words, joined: str, offset: int) -> Words:
    return Words(
        joined,
        title.start + tuple(s + offset for s in text.start),
        title.end + tuple(e + offset for e in text.end),
        title.lower + text.lower,
        title.stem + text.stem,
        title.gap[:-1] + (". ",) * bool(title.gap) + text.gap,
        title.capital + text.capital,
        (0,) * len(title.start) + text.sentence,
    )


@lru_cache(maxsize=60_000)
def analyse(title: str, text: str) -> TokenizedPassage:
    """Tokenise a passage and find its spans (a pure function of the passage, cached)."""
    head = tokenise(title)
    offset = len(title) + 2
    words = _join(head, tokenise(text, first_sentence=1), f"{title}. {text}", offset)
    body = len(head.start)
    spans, norms, texts = [], [], []
    for span in _with_title(title, words, body):
        surface = words.slice(span.first, span.last)
        norm = fold(surface)
        if norm:
            spans.append(span)
            norms.append(norm)
            texts.append(surface)
    sentence = np.asarray(words.sentence, dtype=np.int64)
    starts = np.flatnonzero(np.diff(sentence, prepend=-1)) if len(sentence) else sentence
    bounds = np.asarray([(s.first, s.last) for s in spans], dtype=np.int64).reshape(-1, 2)
    named = tuple(
        (i, words.sentence[s.first])
        for i, s in enumerate(spans)
        if s.kind in ("name", "quote", "title")
    )
    return TokenizedPassage(
        title, words, body, offset, tuple(spans), tuple(norms), bounds, starts, tuple(texts), named
    )


def _with_title(title: str, words: Words, body: int) -> Iterator[Found]:
    bare = bare_title(title)
    last = sum(1 for s in words.start[:body] if s < len(bare))
    if last:
        yield Found(0, last, "title")
        comma = title.find(", ")
        if 0 < comma < len(bare):
            before = sum(1 for s in words.start[:last] if s < comma)
            yield Found(0, before, "title_part")
    yield from find_spans(words, body)
