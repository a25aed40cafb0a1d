"""Compares the shapes of spans with the expected answer types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from searchgym.utils.english import STOP

from .question import Question, noun_type
from .spans import TokenizedPassage, analyse

SHAPE_NAMES = tuple(
    """is_name is_part is_title is_quote is_lower is_numeric words one_word long type_fits
    type_clashes date_wanted date_full year_wanted number_wanted person_name place_context
    person_context page_type_fits page_type_clashes kind_wanted_lower name_wanted_lower
    by_before possessive maximal opens_sentence inner_fits inner_clashes inner_person
    inner_place inner_group inner_work place_name group_name work_name other_person""".split()
)
_PLACE_WORDS = frozenset("in at near from to of".split())
_PERSON_WORDS = frozenset("by with and starring mr mrs dr".split())
_GROUP_WORDS = frozenset(
    """university college school company corporation inc records group band club league party
    association society institute church orchestra team press studios pictures entertainment
    foundation council bank ltd museum library united fc f.c brothers holdings media works sons
    partners industries athletic wanderers rovers academy academic""".split()
)
_PHRASES = frozenset(("predicate", "head"))
_NUMERIC = frozenset(("date", "year", "number", "quantity"))
_NAMES = frozenset(("name", "part", "title", "title_part", "quote"))


def page_type(doc: TokenizedPassage) -> str:
    """The coarse type of a page's subject, from the noun its first sentence calls it ("is a
    Canadian *singer*"), else "other"."""
    lower, stemmed, sentence = doc.words.lower, doc.words.stem, doc.words.sentence
    for i in range(doc.body):  # a disambiguator says it best
        if doc.words.start[i] > len(doc.title.split(" (")[0]):
            kind = noun_type(lower[i], stemmed[i])
            if kind != "other":
                return kind
    verb = next(
        (
            i
            for i in range(doc.body, len(lower))
            if lower[i] in ("is", "was", "are", "were") and sentence[i] <= 2
        ),
        -1,
    )
    if verb < 0:
        return "other"
    for i in range(verb + 1, min(len(lower), verb + 14)):
        if i > verb + 2 and lower[i] in ("of", "in", "by", "from", "who", "that", "which", "for"):
            break
        kind = noun_type(lower[i], stemmed[i])
        if kind in ("person", "place", "group", "work"):
            following = i + 1
            if following < len(lower) and doc.words.gap[i] == " ":
                after = noun_type(lower[following], stemmed[following])
                if after in ("person", "place", "group", "work"):
                    return after
            return kind
    if any(w in ("born", "died") for w in lower[doc.body : verb]):
        return "person"
    return "other"


def shape_columns(q: Question, doc: TokenizedPassage) -> NDArray[np.float32]:
    """(M, len(SHAPE_NAMES)); not to be written to."""
    return _shapes(q.type, q.inner_type, doc.title, doc.text)


@lru_cache(maxsize=60_000)
def _shapes(wanted: str, inner: str, title: str, text: str) -> NDArray[np.float32]:
    """The columns, which all questions of the same types share."""
    doc = analyse(title, text)
    rows: list[tuple[Any, ...]] = []
    lower, gap, capital = doc.words.lower, doc.words.gap, doc.words.capital
    grouping = {i for i, w in enumerate(lower) if w in _GROUP_WORDS}
    function = {i for i, w in enumerate(lower) if w in STOP}
    own = page_type(doc)
    sentence = doc.words.sentence
    previous_end = -1
    for row, span in enumerate(doc.spans):
        a, b, kind = span
        length = b - a
        numeric = kind in _NUMERIC
        name = kind in _NAMES and not numeric
        before = lower[a - 1] if a else ""
        titled = kind in ("title", "title_part")
        low = not numeric and not capital[b - 1] and (kind in _PHRASES or not any(capital[a:b]))
        here = range(a, b)
        group = not grouping.isdisjoint(here) or "&" in doc.span_text(row)
        small = not function.isdisjoint(here)
        person = name and not group and not small and 2 <= length <= 4
        person = person and all(capital[i] or len(lower[i]) <= 3 for i in here)
        # A title of a work has small words in it, or begins with an article ("The Last Train").
        work = kind == "quote" or (name and not group and small and length > 1)
        place = name and before in _PLACE_WORDS and length <= 4
        apposed = noun_type(before, doc.words.stem[a - 1]) if a and gap[a - 1] == " " else "other"
        subject = titled or (a <= doc.body + 1 and not numeric)
        guess = own if subject else apposed
        if guess == "other" and name and group:
            guess = "group"
        fits, beside = _fits(wanted, kind, guess, low), _fits(inner, kind, guess, low)
        values = {  # in the order of SHAPE_NAMES
            "is_name": kind == "name",
            "is_part": kind in ("part", "head", "title_part"),
            "is_title": titled,
            "is_quote": kind == "quote",
            "is_lower": low,
            "is_numeric": numeric,
            "words": min(length, 10) / 10,
            "one_word": length == 1,
            "long": length > 4,
            "type_fits": fits > 0,
            "type_clashes": fits < 0,
            "date_wanted": wanted == "date" and kind in ("date", "year"),
            "date_full": wanted == "date" and kind == "date" and length == 3,
            "year_wanted": wanted == "year" and kind == "year",
            "number_wanted": wanted == "number" and kind in ("number", "quantity"),
            "person_name": wanted == "person" and person,
            "place_context": wanted == "place" and place,
            "person_context": wanted == "person" and name and before in _PERSON_WORDS,
            "page_type_fits": subject and own != "other" and own == wanted,
            "page_type_clashes": subject and own != "other" and wanted != "other" and own != wanted,
            "kind_wanted_lower": wanted == "kind" and low,
            "name_wanted_lower": wanted in ("person", "place", "group", "work") and low,
            "by_before": before == "by",
            "possessive": doc.words.lower[b - 1].endswith(("'s", "’s")),
            "maximal": a >= previous_end,
            "opens_sentence": length == 1 and a > doc.body and sentence[a - 1] != sentence[a],
            "inner_fits": beside > 0,
            "inner_clashes": beside < 0,
            "inner_person": inner == "person" and person,
            "inner_place": inner == "place" and (place or (name and length == 1)),
            "inner_group": inner == "group" and name and group,
            "inner_work": inner == "work" and work,
            "place_name": wanted == "place" and name and length == 1,
            "group_name": wanted == "group" and name and group,
            "work_name": wanted == "work" and work,
            "other_person": wanted in ("place", "work", "group") and person,
        }
        previous_end = max(previous_end, b)
        rows.append(tuple(values.values()))
    return np.asarray(rows, dtype=np.float32).reshape(-1, len(SHAPE_NAMES))


def _fits(wanted: str, kind: str, guess: str, low: bool) -> int:
    """1: the span's shape agrees with the wanted type; -1: it cannot; 0: unknown."""
    if wanted in ("date", "year"):
        return 1 if kind in ("date", "year") else -1
    if wanted == "number":
        return 1 if kind in ("number", "quantity") else -1
    if wanted == "other":
        return 0
    if kind in _NUMERIC:
        return -1
    if wanted == "kind":
        return 1 if low else 0
    if guess == wanted:
        return 1
    return -1 if low or guess in ("person", "place", "group", "work") else 0
