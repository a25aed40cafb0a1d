"""Sentences, windows of some words, and whether a text states an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ...text import normalise_answer

_END = re.compile(r"(?<=[.!?])[\"'”’)]?\s+(?=[\"'“‘(]?[^\W\d_a-z])")
_CLOSED = frozenset({"yes", "no", "true", "false", "none", "both", "neither"})


def sentences(text: str) -> list[str]:
    """A text's sentences, by a full stop and a capital letter after it."""
    return [part for s in _END.split(text) if (part := s.strip())]


def mentions(text: str, answers: Iterable[str]) -> bool:
    """Check whether a text holds an answer as whole words, both normalised as for scoring."""
    words = f" {normalise_answer(text)} "
    return any(f" {gold} " in words for a in answers if (gold := normalise_answer(a)))


def telling(answer: str) -> bool:
    """True if a text that holds the answer states it: not so for yes, no and numbers below 100,
    which occur everywhere."""
    plain = normalise_answer(answer)
    return len(plain) > 2 and plain not in _CLOSED and not (plain.isdigit() and len(plain) < 3)


def clip(text: str, words: int, keep: Sequence[str] = ()) -> str:
    """``text`` cut to ``words`` words; with ``keep``, a stretch that still holds one of these."""
    parts = text.split()
    if len(parts) <= words:
        return text
    for start in range(len(parts) - words + 1) if keep else ():
        cut = " ".join(parts[start : start + words])
        if mentions(cut, keep):
            return cut
    return " ".join(parts[:words])


def snippet(text: str, answer: str, before: int, words: int) -> str | None:
    """``words`` words of a text around the first mention of an answer, as result pages show them:
    the answer after at most ``before`` words, dots where a text begins earlier. ``None``: no
    mention."""
    gold = normalise_answer(answer)
    parts = text.split()
    before = max(0, min(before, words - len(gold.split()) - 1))
    for at in range(len(parts)):
        rest = normalise_answer(" ".join(parts[at:])) + " "
        if gold and rest.startswith(f"{gold} "):
            start = max(0, at - before)
            shown = " ".join(parts[start : start + words])
            return f"… {shown}" if start else shown
    return None


def excerpt(
    parts: Sequence[str],
    first: int,
    words: int,
    draw: np.random.Generator,
    *,
    keep: Sequence[str] = (),
    lead: bool = True,
) -> str:
    """Sentence ``first`` and, as far as ``words`` reach, others in random order after it (or,
    without ``lead``, around it)."""
    chosen = [clip(parts[first], words, keep)]
    room = words - len(chosen[0].split())
    for i in draw.permutation(len(parts)):
        size = len(parts[i].split())
        if i == first or size > room:
            continue
        before = not lead and bool(draw.integers(2))
        chosen.insert(0 if before else len(chosen), parts[i])
        room -= size
    return " ".join(chosen)
