"""English words with offsets, stems and rarity, and lists of those that carry little meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ..text import normalise_answer

WORD = re.compile(r"\w+(?:[.'’\-/]\w+)*")
"""A word: letters and digits, joined by inner apostrophes, hyphens, full stops and slashes."""

STOP = frozenset(
    """a an the and or but nor of in on at to for from by with without as is are was were be been
    being am do does did done has have had having this that these those it its he she his her him
    hers they them their theirs we our us you your i my me who whom whose which what when where why
    how not no than then there here so such into over under between among about also both either
    neither each other another one same if while during after before until up out off can could
    will would shall should may might must only very too just own some little according many
    most several few although however s t""".split()
)
"""Function words: never a match on their own, never an answer on their own."""

AUXILIARIES = frozenset(
    """is are was were do does did has have had can could will would should may might must am
    isn't aren't wasn't weren't don't doesn't didn't""".split()
)
"""A question that begins with one of these is polar unless it offers alternatives."""

MONTHS = frozenset(
    """january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec""".split()
)

NUMBER_WORDS: Mapping[str, int] = {
    w: i
    for i, w in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
        fifteen sixteen seventeen eighteen nineteen twenty""".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "hundred": 100, "dozen": 12}

ORDINALS = frozenset(
    """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth last
    1st 2nd 3rd""".split()
)

_ABBREVIATIONS = frozenset(
    "jr sr st dr mr mrs ms prof gen col lt sgt rev hon vs no inc ltd co corp ft mt u.s u.k".split()
)


@lru_cache(maxsize=400_000)
def fold(text: str) -> str:
    """``normalise_answer``, remembered: the same spans come back state after state."""
    return normalise_answer(text)


@lru_cache(maxsize=400_000)
def tokens(norm: str) -> frozenset[str]:
    """The different words of a normalised text."""
    return frozenset(norm.split())


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """A light stem of a lower-case word: plural, possessive and the commonest verb endings go.

    Deliberately lighter than Porter, so that "united" and "unit" stay apart, and it needs nothing
    but the standard library.
    """
    for ending in ("'s", "’s"):
        if word.endswith(ending):
            word = word[:-2]
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending, keep in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + keep
            break
    else:
        if word.endswith("s") and not word.endswith("ss"):
            word = word[:-1]
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


class Words(NamedTuple):
    """A tokenised text. All tuples have one entry per word, W in all."""

    text: str
    start: tuple[int, ...]
    end: tuple[int, ...]
    lower: tuple[str, ...]
    stem: tuple[str, ...]
    gap: tuple[str, ...]
    """The characters between a word and the next one (after the last word: to the end)."""
    capital: tuple[bool, ...]
    sentence: tuple[int, ...]
    """Index of each word's sentence, from 0."""

    def slice(self, first: int, last: int) -> str:
        """The text from word ``first`` up to, not including, word ``last``; no final possessive."""
        text = self.text[self.start[first] : self.end[last - 1]]
        return text[:-2] if text.endswith(("'s", "’s")) else text


def _ends_sentence(word: str, lower: str, gap: str, following: str) -> bool:
    if gap == " ":  # nearly always
        return False
    mark = gap[:1]
    if mark not in ".!?" and not any(c in gap for c in ".!?"):
        return False
    if len(gap) < 2 or not (following[0].isupper() or following[0].isdigit() or '"' in gap):
        return False
    return not (mark == "." and ((len(word) == 1 and word.isupper()) or lower in _ABBREVIATIONS))


def tokenise(text: str, *, first_sentence: int = 0) -> Words:
    """Words of a text with their sentences; total, any string is accepted."""
    ranges = [(m.start(), m.end()) for m in WORD.finditer(text)]
    starts = tuple(s for s, _ in ranges)
    ends = tuple(e for _, e in ranges)
    raw = [text[s:e] for s, e in ranges]
    lower = tuple(w.lower() for w in raw)
    bounds = (*starts[1:], len(text)) if ranges else ()
    gap = tuple(text[e:b] for e, b in zip(ends, bounds, strict=True))
    sentence, at = [], first_sentence
    for i, word in enumerate(raw):
        sentence.append(at)
        if i + 1 < len(raw) and (
            "\n" in gap[i] or _ends_sentence(word, lower[i], gap[i], raw[i + 1])
        ):
            at += 1
    return Words(
        text,
        starts,
        ends,
        lower,
        tuple(stem(w) for w in lower),
        gap,
        tuple(w[0].isupper() for w in raw),
        tuple(sentence),
    )


class Rarity:
    """Estimates how informative a word is, in [0, 1], without any corpus statistics.

    An agent sees only the passages it retrieved, so document frequencies are not available to it.
    A word-piece vocabulary sorted by frequency is (BERT's is, from id 1,996 on): rarity is the
    logarithm of the rank. Words outside the vocabulary are rare, stop words are worth nothing.
    Without a vocabulary every content word weighs 0.7.
    """

    FIRST = 1996

    def __init__(self, vocabulary: Mapping[str, int] | None = None) -> None:
        self._rank = vocabulary
        self._scale = math.log(30_522 - self.FIRST)
        self._known: dict[str, float] = {}

    def __call__(self, lower: str) -> float:
        got = self._known.get(lower)
        if got is None:
            got = self._known[lower] = self._compute(lower)
        return got

    def _compute(self, lower: str) -> float:
        if lower in STOP:
            return 0.0
        if self._rank is None:
            return 0.7
        rank = self._rank.get(lower)
        if rank is None:
            return 1.0
        return max(0.15, math.log(max(2, rank - self.FIRST + 1)) / self._scale)
