"""Format score of a self-search text: SSRL's (arXiv 2508.10874), rule for rule.

The rules read the policy's own text and nothing else, so nothing a passage says can earn it.
"""

from __future__ import annotations

import re

from ..text import blocks

_TAG = re.compile(r"<(/?(?:think|search|information|answer))>")
_KINDS = ("think", "search", "information", "answer")
_ALLOWED = frozenset(_KINDS) | {f"/{kind}" for kind in _KINDS}
PLACEHOLDERS = {
    "think": "your thoughts",
    "search": "your query",
    "information": "your information",
    "answer": "your answer",
}
"""Placeholders in the instructions, for which the policy should write something of its own."""
MAX_THOUGHTS = 8
ENOUGH_THOUGHTS = 2
"""Number of thoughts from which on further ones no longer raise the score."""


def ssrl_format(text: str) -> float:
    """The format score in [0, 1] of one uninterrupted self-search text.

    0 unless all of these hold, surrounding white space aside: every ``<…>`` is a tag of
    think, search, information or answer; the text begins with ``<think>`` and ends with
    ``</answer>``; its first two tags are a thought and its last two an answer; no block is empty or
    holds the instructions' placeholder; a search is one line and its next two tags are an
    information block; there are as many searches as information blocks and at most
    8 thoughts. Then ``min(thoughts / 2, 1) · ratio``, where ``ratio`` is the smaller of (thoughts,
    searches + 1) over the larger.
    """
    text = text.strip()
    if not _well_formed(text):
        return 0.0
    thoughts, searches = text.count("<think>"), text.count("<search>")
    if thoughts > MAX_THOUGHTS or searches != text.count("<information>"):
        return 0.0
    ratio = min(thoughts, searches + 1) / max(thoughts, searches + 1)
    return min(thoughts / ENOUGH_THOUGHTS, 1.0) * ratio


def _well_formed(text: str) -> bool:
    if not (text.startswith("<think>") and text.endswith("</answer>")):
        return False
    names = (piece.partition("<")[2] for piece in text.split(">")[:-1])
    if any(name and name not in _ALLOWED for name in names):
        return False
    tags: list[str] = _TAG.findall(text)
    if len(tags) < 4 or tags[:2] != ["think", "/think"] or tags[-2:] != ["answer", "/answer"]:
        return False
    for kind in _KINDS:
        for content in blocks(text, kind):
            if not content.strip() or PLACEHOLDERS[kind] in content.lower():
                return False
            if kind == "search" and "\n" in content:
                return False
    return _answered(tags[2:-2])


def _answered(tags: list[str]) -> bool:
    i = 0
    while i < len(tags):
        if tags[i] == "search":
            if tags[i + 1 : i + 4] != ["/search", "information", "/information"]:
                return False
            i += 4
        else:
            i += 1
    return True
