"""The only place where text is normalised for comparison."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

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
    """Whether an answer is a refusal ("unanswerable", "I don't know", …)."""
    return normalise_answer(text) in ABSTENTIONS


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if the normalised prediction equals a normalised answer. Empty answers never match."""
    got = normalise_answer(prediction)
    return float(bool(got) and any(got == normalise_answer(a) for a in answers))


def cover_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if a normalised answer is a substring of the prediction ("cover-EM"; some papers call
    this EM). Gameable by listing answers, hence kept apart from ``exact_match``."""
    got = normalise_answer(prediction)
    return float(any(gold and gold in got for gold in map(normalise_answer, answers)))


def token_f1(prediction: str, answers: Iterable[str]) -> float:
    """Token-multiset F1 on normalised text, best over the answers (SQuAD)."""
    got = normalise_answer(prediction).split()
    best = 0.0
    for answer in answers:
        gold = normalise_answer(answer).split()
        common = sum((Counter(got) & Counter(gold)).values())
        if common:
            best = max(best, 2 * common / (len(got) + len(gold)))
    return best
