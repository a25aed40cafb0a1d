"""Reports of sub-tasks: passages that whoever carried one out hands on beside its conclusion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ..text import answer_words, normalise_answer
from ..types import Hit


def reported(conclusion: str, found: Sequence[Hit], share: float) -> tuple[Hit, ...]:
    """The passages that a report carries: those whose titles the conclusion names, and of the rest
    the ``share`` (at least one, rounded up) whose words are nearest to it by cosine; of equal ones
    those found first (the knowledge refiner of HierSearch, arXiv 2508.08088, which compares
    embeddings).
    """
    passages = {hit.passage.id: hit for hit in reversed(found)}
    hits = [passages[i] for i in dict.fromkeys(hit.passage.id for hit in found)]
    words = normalise_answer(conclusion)
    kept = [
        h for h in hits if (t := normalise_answer(h.passage.title)) and f" {t} " in f" {words} "
    ]
    rest = [h for h in hits if h not in kept]
    nearest = sorted(rest, key=lambda h: -_cosine(words, h.passage.text))
    count = max(1, math.ceil(round(share * len(rest), 9)))
    return tuple(h for h in hits if h in kept or h in nearest[:count])


def _cosine(words: str, text: str) -> float:
    """Cosine of two texts' word counts, rounded, so that order does not hang on the last bit."""
    a, b = Counter(answer_words(words)), Counter(answer_words(normalise_answer(text)))
    lengths = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return round(sum(n * b[w] for w, n in a.items()) / lengths, 9) if lengths else 0.0
