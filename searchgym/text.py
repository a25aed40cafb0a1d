"""The only place where text is normalised for comparison."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

ABSTENTIONS = frozenset(
    {
        "unanswerable",
        "i dont know",
        "i do not know",
        "no answer",
        "not answerable",
        "cannot be answered",
        "cannot answer",
        "unknown",
        "insufficient information",
    }
)
"""Normalised texts that count as a refusal."""


def normalise_answer(text: str) -> str:
    """SQuAD's normalisation (Rajpurkar et al., 2016), the one all search-agent papers score with.

    Lower-case, delete ASCII punctuation, replace the words a/an/the by a blank, collapse white
    space, in this order. ``"3.5"`` therefore becomes ``"35"`` and ``"The"`` becomes ``""``.
    """
    text = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def is_abstention(text: str) -> bool:
    """Return whether an answer is a refusal ("unanswerable", "I don't know", …)."""
    return normalise_answer(text) in ABSTENTIONS


class Match(NamedTuple):
    """Scores of a prediction against the accepted answers, the best over them."""

    exact: float
    """1.0 if the normalised texts are equal. Empty ones never match."""
    f1: float
    """Token-multiset F1 of the normalised texts (SQuAD)."""
    cover: float
    """1.0 if an answer stands in the prediction as whole words."""


def match(prediction: str, answers: Iterable[str]) -> Match:
    """All three measures, each text normalised once."""
    got = normalise_answer(prediction)
    golds = [gold for answer in answers if (gold := normalise_answer(answer))]
    if not got or not golds:
        return Match(0.0, 0.0, 0.0)
    if got in golds:
        return Match(1.0, 1.0, 1.0)
    return Match(0.0, _f1(got, golds), float(any(_covers(got, gold) for gold in golds)))


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if the normalised prediction equals a normalised answer. Empty answers never match."""
    got = normalise_answer(prediction)
    return float(bool(got) and any(got == normalise_answer(a) for a in answers))


def cover_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if a normalised answer stands in the prediction as whole words ("cover-EM"; some papers
    call this EM, and most look for a substring, so that "2" is found in "1922"). Scripts without
    blanks between words (Chinese, Japanese, full-width forms) have no such edges. Gameable by
    listing answers, hence kept apart from ``exact_match``."""
    got = normalise_answer(prediction)
    return float(any(_covers(got, gold) for gold in map(normalise_answer, answers) if gold))


def _covers(text: str, words: str) -> bool:
    """Return whether normalised ``words`` stand in a normalised text with an edge on either
    side."""
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        if (at == 0 or _edge(text[at - 1], text[at])) and (
            end == len(text) or _edge(text[end - 1], text[end])
        ):
            return True
        at = text.find(words, at + 1)
    return False


def _edge(left: str, right: str) -> bool:
    """Return whether a word may end between two characters."""
    return not (_joins(left) and _joins(right))


def _joins(character: str) -> bool:
    """Return whether a character is part of a word that blanks delimit. Hangul is, though it is
    wide."""
    if unicodedata.east_asian_width(character) in "WF":
        return "\uac00" <= character <= "\ud7a3"
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _f1(text: str, golds: Iterable[str]) -> float:
    got = text.split()
    best = 0.0
    for answer in golds:
        gold = answer.split()
        common = sum((Counter(got) & Counter(gold)).values())
        if common:
            best = max(best, 2 * common / (len(got) + len(gold)))
    return best
