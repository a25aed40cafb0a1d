"""Cutting a text where facts begin and end, however their places overlap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class FactSpan(NamedTuple):
    """A stretch of text and the facts that it states a part of."""

    text: str
    facts: tuple[int, ...]
    begins: tuple[int, ...]
    """Facts whose first character this is."""


def pieces(text: str, spans: Sequence[tuple[int, int, int]]) -> list[FactSpan]:
    """``text`` as pieces that join to it again, cut at the ends of every ``(fact, start, end)``.

    Spans may overlap, nest, repeat a fact, or reach beyond the text, which cuts them off; empty
    ones state nothing.
    """
    kept = [(fact, max(start, 0), min(end, len(text))) for fact, start, end in spans]
    kept = [(fact, start, end) for fact, start, end in kept if start < end]
    cuts = sorted({0, len(text), *(s for _, s, _ in kept), *(e for _, _, e in kept)})
    made = []
    for low, high in pairwise(cuts):
        facts = dict.fromkeys(fact for fact, s, e in kept if s <= low and high <= e)
        begins = dict.fromkeys(fact for fact, s, _ in kept if s == low)
        made.append(FactSpan(text[low:high], tuple(facts), tuple(begins)))
    return made


def around(text: str, start: int, end: int, reach: int = 90) -> tuple[str, str, str]:
    """Return the text before a span, the span, and the text after it: to the sentence's ends, and
    at most ``reach`` characters each way."""
    before, after = text[:start], text[end:]
    begin = max(before.rfind(". ") + 2 if ". " in before else 0, before.rfind("\n") + 1)
    stops = [at for at in (after.find(". "), after.find("\n")) if at >= 0]
    stop = min(stops) + 1 if stops else len(after)
    left, right = before[begin:], after[:stop]
    if len(left) > reach:
        left = "…" + left[-reach:]
    if len(right) > reach:
        right = right[:reach] + "…"
    return left, text[start:end], right
