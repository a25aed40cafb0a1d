"""Answers that are sets: how they are written, read, and scored.

Written with semicolons ("Oldeth Marn; Kira Sanu"), in any order. Read are also lines with or
without bullets, JSON lists, and lists with commas and "and", in which a member whose own name holds
a comma or an "and" stays whole. Set F1 is the harmonic mean of precision and recall over members,
2 · hits / (said + gold), as for lists in PhantomWiki (arXiv 2502.20377); exact match is a set F1
of 1: every member and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..text import covers, normalise_answer

SEPARATOR = "; "
_STRONG = re.compile(r"[;\n\r]+")
_WEAK = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.)])\s+")
_LEADING_AND = re.compile(r"^\s*and\s+", re.IGNORECASE)


class SetScore(NamedTuple):
    """Scores of an answer against a set; ``exact`` is 1 if and only if ``f1`` is."""

    exact: float
    precision: float
    recall: float
    f1: float
    cover: float
    """1 if every member stands somewhere in the answer as whole words."""


def set_text(members: Iterable[str]) -> str:
    """The canonical text of a set: its members in alphabetical order, each once."""
    return SEPARATOR.join(sorted(set(members)))


def score_set(answer: str, items: Sequence[Sequence[str]]) -> SetScore:
    """Score an answer against a set's members, each given by its accepted forms.

    A member said twice counts once, also under two of its names. An empty answer scores 0.
    """
    member = {
        normal: i for i, forms in enumerate(items) for form in forms
        if (normal := normalise_answer(form))
    }  # fmt: skip
    hits: set[int] = set()
    wrong: set[str] = set()
    for said in read_set(answer, member):
        if said in member:
            hits.add(member[said])
        else:
            wrong.add(said)
    spoken = len(hits) + len(wrong)
    whole = normalise_answer(answer)
    cover = all(
        any(covers(whole, n) for n, i in member.items() if i == k) for k in range(len(items))
    )
    if not hits:
        return SetScore(0.0, 0.0, 0.0, 0.0, float(cover and bool(items)))
    f1 = 2 * len(hits) / (spoken + len(items))
    return SetScore(float(f1 == 1.0), len(hits) / spoken, len(hits) / len(items), f1, float(cover))


def read_set(answer: str, known: Mapping[str, object] = {}) -> list[str]:
    """The normalised members that an answer names, in its order, with repeats.

    ``known``: normalised names that stay whole although they hold a comma or an "and".
    """
    listed = _json_list(answer)
    pieces = listed if listed is not None else _STRONG.split(answer)
    several = sum(bool(normalise_answer(piece)) for piece in pieces) > 1
    members: list[str] = []
    for piece in pieces:
        text = _LEADING_AND.sub("", _BULLET.sub("", piece))
        for whole in (piece, text):
            if normalise_answer(whole) in known:
                members.append(normalise_answer(whole))
                break
        else:
            parts = _parts(text, known)
            # Among semicolons, a comma within what is no member at all separates nothing.
            members += parts if not several or any(p in known for p in parts) else [text]
    return [normal for said in members if (normal := normalise_answer(said))]


def _parts(text: str, known: Mapping[str, object]) -> list[str]:
    """A text cut at commas and "and", known names in one piece, longest first."""
    cuts = [(0, 0), *(match.span() for match in _WEAK.finditer(text)), (len(text), len(text))]
    parts: list[str] = []
    at = 0
    while at < len(cuts) - 1:
        for end in range(len(cuts) - 1, at, -1):
            part = normalise_answer(text[cuts[at][1] : cuts[end][0]])
            if part in known or end == at + 1:
                parts.append(part)
                at = end
                break
    return parts


def _json_list(answer: str) -> list[str] | None:
    """The texts of a JSON list; None for anything else."""
    if not answer.lstrip().startswith("["):
        return None
    try:
        read = json.loads(answer)
    except ValueError:
        return None
    return [str(one) for one in read] if isinstance(read, list) else None
