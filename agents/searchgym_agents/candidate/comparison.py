"""Questions that compare two things: evidence for "A or B" and for "yes or no"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.text import bare_title
from searchgym.utils.english import MONTHS, NUMBER_WORDS, STOP, fold

from .answer_types import page_type
from .question import Question
from .spans import TokenizedPassage

CHOICE_NAMES = tuple(
    """choice_is choice_page_found choice_both_found choice_time choice_death_time choice_number
    choice_time_near choice_number_near choice_number_cos choice_rel_lex choice_rel_soft
    choice_focus choice_comparative""".split()
)
POLAR_NAMES = tuple(
    """polar_sign polar_found polar_rel_lex_least polar_rel_soft_least polar_rel_lex_most
    polar_same_kind polar_same_lead polar_same_capitals polar_asks_same polar_shared_value
    polar_value_gap""".split()
)
_EARLY = frozenset("first earlier older oldest earliest elder before eldest sooner prior".split())
_LATE = frozenset(
    """later younger youngest latest newer newest last recently recent second after""".split()
)
_MORE = frozenset(
    """more most larger largest bigger biggest higher highest taller tallest longer longest greater
    greatest larger heavier""".split()
)
_LESS = frozenset("fewer fewest less least smaller smallest lower lowest shorter shortest".split())
_YEAR = re.compile(r"\b(1[0-9]{3}|20[0-9]{2})\b")
_NUMBER = re.compile(r"\b\d{1,3}(?:,\d{3})+\b|\b\d+(?:\.\d+)?\b")


_DATED = re.compile(
    r"(?:\b(?:in|since|from|until|till|of|by|to|a|the|and|around|circa|early|late|"
    + "|".join(MONTHS)
    + r")|[(–-]|\d,?)\s*$",
    re.IGNORECASE,
)
"""Text before a four-digit number that is a year; other such numbers are amounts."""


@lru_cache(maxsize=60_000)
def _dates(text: str) -> tuple[float, ...]:
    """Dates of a text as years with fractions, in order of mention."""
    dates = []
    for match in _YEAR.finditer(text):
        around = text[max(0, match.start() - 22) : match.start()].lower()
        month, day = 0.0, 0.0
        for i, name in enumerate(_MONTH_LIST):
            at = around.rfind(name)
            if at >= 0:
                month = i / 12
                digits = re.findall(r"\d{1,2}", around[max(0, at - 4) :])
                day = int(digits[-1]) / 372 if digits and int(digits[-1]) <= 31 else 0.0
                break
        dates.append(int(match.group()) + month + day)
    return tuple(dates)


_MONTH_LIST = tuple(
    m
    for m in """january february march april may june july august september october november
    december""".split()
    if m in MONTHS
)


def _numbers(doc: TokenizedPassage) -> list[float]:
    text = doc.words.text
    out = [
        float(m.group().replace(",", ""))
        for m in _NUMBER.finditer(text)
        if not (_YEAR.fullmatch(m.group()) and _DATED.search(text[: m.start()]))
    ]
    out.extend(float(NUMBER_WORDS[w]) for w in doc.words.lower if w in NUMBER_WORDS)
    return out


def direction(question: Question) -> tuple[int, int]:
    """(time, amount): +1 if the later (larger) is asked for, -1 if the earlier (smaller)."""
    words = {part for w in question.words.lower for part in (w, w.split("-")[0])}
    time = 1 if any(w in _LATE for w in words) else 0
    if any(w in _EARLY for w in words):
        time = -1
    if "younger" in words or "youngest" in words:
        time = 1
    amount = 1 if any(w in _MORE for w in words) else -1 if any(w in _LESS for w in words) else 0
    if "born" in words and amount:
        time = -amount
    return time, amount


def pages_of(question_norms: tuple[str, ...], titles: list[str]) -> list[int]:
    """Return, for each name, the first document titled so (-1 if none); containment counts as a
    match."""
    out = []
    for norm in question_norms:
        exact = next((i for i, t in enumerate(titles) if t == norm), -1)
        if exact < 0 and norm:
            exact = next(
                (
                    i
                    for i, t in enumerate(titles)
                    if t and (f" {norm} " in f" {t} " or f" {t} " in f" {norm} ")
                ),
                -1,
            )
        out.append(exact)
    return out


def titled_in(question: Question, titles: Sequence[str]) -> list[int]:
    """Documents whose title stands in the question, in its order; longer titles first claim their
    words, so that "Live" is not found inside "Live in Oldeth"."""
    left = f" {question.norm} "
    places: list[tuple[int, int]] = []
    for i in sorted(range(len(titles)), key=lambda i: -len(titles[i])):
        at = left.find(f" {titles[i]} ") if titles[i] else -1
        if at >= 0 and titles[i] not in (titles[j] for _, j in places):
            places.append((at, i))
            end = at + len(titles[i]) + 1
            left = left[: at + 1] + "\0" * (end - at - 1) + left[end:]
    return [i for _, i in sorted(places)]


def _lead(doc: TokenizedPassage) -> list[int]:
    return [i for i in range(doc.body, len(doc.words.lower)) if doc.words.sentence[i] <= 2]


class ComparedPage(NamedTuple):
    """A retrieved page together with the features that comparing it with another needs."""

    doc: TokenizedPassage
    cover: NDArray[np.float32]
    """(5,) coverage of the question."""
    lead: NDArray[np.float32]
    """(2,) coverage of the focus words by the first sentence."""
    near: NDArray[np.float32]
    """(M,) relation words around each span."""
    cos: NDArray[np.float32]
    """(M,) cosine of each span in its context with the relation words."""


def _value(doc: TokenizedPassage, span: int) -> float | None:
    match = _NUMBER.search(doc.span_text(span))
    if match:
        return float(match.group().replace(",", ""))
    first = doc.words.lower[doc.spans[span].first]
    return float(NUMBER_WORDS[first]) if first in NUMBER_WORDS else None


def _best(page: ComparedPage, kinds: tuple[str, ...], score: NDArray[np.float32]) -> float | None:
    """The value of the span of these kinds with the best score."""
    doc = page.doc
    rows = [i for i, f in enumerate(doc.spans) if f.kind in kinds]
    if not rows:
        return None
    top = max(rows, key=lambda i: float(score[i]))
    if "year" in kinds:
        dates = _dates(doc.span_text(top))
        return dates[0] if dates else None
    return _value(doc, top)


def _sign(a: float | None, b: float | None) -> float:
    return 0.0 if a is None or b is None else float(np.sign(a - b))


def choice_columns(
    question: Question, pages: Sequence[ComparedPage]
) -> dict[str, NDArray[np.float32]]:
    """Normalised alternative → (len(CHOICE_NAMES),). Empty unless the question offers a choice,
    in words ("A or B") or by comparing two things whose pages were found.

    Signed columns are positive where the evidence speaks for that side.
    """
    titles = [fold(bare_title(p.doc.title)) for p in pages]
    time, amount = direction(question)
    norms = tuple(fold(a) for a in question.alternatives)
    if not norms and (time or amount) and not question.polar:
        # However the choice is worded: it lies between the two pages the question names.
        named = titled_in(question, titles)
        norms = tuple(titles[i] for i in named) if len(named) == 2 else ()
    if not norms:
        return {}
    where = pages_of(norms, titles)
    both = min(where) >= 0 and where[0] != where[1]
    signed = np.zeros(9, dtype=np.float32)
    if both:
        a, b = pages[where[0]], pages[where[1]]
        da, db = _dates(a.doc.words.text), _dates(b.doc.words.text)
        if da and db:
            signed[0] = time * np.sign(da[0] - db[0])
        death = any(w in ("died", "die", "death", "dead") for w in question.words.lower)
        if death and len(da) > 1 and len(db) > 1:
            signed[1] = time * np.sign(da[1] - db[1])
        na, nb = _numbers(a.doc), _numbers(b.doc)
        if na and nb:
            signed[2] = amount * np.sign(max(na) - max(nb))
        times, counts = ("date", "year"), ("number", "quantity")
        signed[3] = time * _sign(_best(a, times, a.near), _best(b, times, b.near))
        signed[4] = amount * _sign(_best(a, counts, a.near), _best(b, counts, b.near))
        signed[5] = amount * _sign(_best(a, counts, a.cos), _best(b, counts, b.cos))
        signed[6:8] = (a.cover - b.cover)[:2]
        signed[8] = a.lead[1] - b.lead[1]
    out = {}
    for side, norm in enumerate(norms):
        sign = 1 if side == 0 else -1
        row = np.zeros(len(CHOICE_NAMES), dtype=np.float32)
        row[0] = 1
        row[1] = where[side] >= 0
        row[2] = both
        row[3:12] = sign * signed
        row[12] = time != 0 or amount != 0
        out[norm] = row
        title = titles[where[side]] if where[side] >= 0 else ""
        if title and title != norm:
            out.setdefault(title, row * np.float32(1))
    return out


def polar_columns(question: Question, compared: Sequence[ComparedPage]) -> NDArray[np.float32]:
    """(len(POLAR_NAMES) - 1,) evidence columns for yes/no (the sign column is the caller's)."""
    out = np.zeros(len(POLAR_NAMES) - 1, dtype=np.float32)
    words = question.words.lower
    out[7] = "same" in words or "both" in words or "share" in words
    norms = tuple(
        dict.fromkeys(
            fold(t)
            for t, f in zip(question.mention_texts, question.mentions, strict=True)
            if f.kind in ("name", "quote")
        )
    )
    titles = [fold(bare_title(p.doc.title)) for p in compared]
    pages = titled_in(question, titles)[:2]
    if len(pages) < 2:
        pages = list(dict.fromkeys(p for p in pages_of(norms, titles) if p >= 0))[:2]
    out[0] = len(pages) / 2
    if len(pages) < 2:
        if pages:
            cover = compared[pages[0]].cover
            out[1], out[2], out[3] = cover[0], cover[1], cover[0]
        return out
    a, b = compared[pages[0]], compared[pages[1]]
    out[1], out[2] = min(a.cover[0], b.cover[0]), min(a.cover[1], b.cover[1])
    out[3] = max(a.cover[0], b.cover[0])
    kinds = page_type(a.doc), page_type(b.doc)
    out[4] = 0 if "other" in kinds else (1 if kinds[0] == kinds[1] else -1)
    out[5] = _overlap(a.doc, b.doc, capitals=False)
    out[6] = _overlap(a.doc, b.doc, capitals=True)
    out[8], out[9] = _shared_value(question, a, b)
    return out


def _shared_value(question: Question, a: ComparedPage, b: ComparedPage) -> tuple[float, float]:
    """Return the score of the best value that both pages give, by its nearness to the relation
    words, and the difference from the best value of either page (positive: the answers differ)."""
    scores: list[dict[str, float]] = []
    for page in (a, b):
        mine: dict[str, float] = {}
        for i, name in enumerate(page.doc.norms):
            if f" {name} " not in f" {question.norm} " and page.doc.spans[i].kind != "title":
                mine[name] = max(mine.get(name, 0.0), float(page.near[i] + page.cos[i]))
        scores.append(mine)
    left, right = scores
    shared = max((min(left[n], right[n]) for n in left if n in right), default=0.0)
    alone = max((max(s.values(), default=0.0) for s in scores), default=0.0)
    return shared, alone - shared


def _overlap(a: TokenizedPassage, b: TokenizedPassage, *, capitals: bool) -> float:
    """Jaccard overlap of the first sentences' content words (lower-case ones, or capitalised)."""
    sets = []
    for doc in (a, b):
        title = set(doc.words.stem[: doc.body])
        sets.append(
            {
                doc.words.stem[i]
                for i in _lead(doc)
                if doc.words.lower[i] not in STOP
                and doc.words.capital[i] == capitals
                and not doc.words.lower[i][0].isdigit()
                and doc.words.lower[i] not in MONTHS
                and doc.words.stem[i] not in title
            }
        )
    union = sets[0] | sets[1]
    return len(sets[0] & sets[1]) / len(union) if union else 0.0
