"""Texts with some of their words marked: answers in passages, differences between two texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from ..web.text import MOST_CHARS, shown
from .finding import Needles

_MOST_WORDS = 3000
"""Largest number of words of each text that are compared; comparing takes their product."""
_SHORT = 3
"""Answers below so many characters ("no", "4") would mark half a page."""
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")


def marked(
    text: str, needles: Sequence[str], most: int = MOST_CHARS, search: Needles | None = None
) -> Any:
    """Markup of a text in which the needles stand out, and the words of a search."""
    from markupsafe import Markup

    kept = text[:most]
    spans = [(start, end, True) for start, end in (search.spans(kept) if search else ())]
    chosen = sorted({n for n in needles if len(n) >= _SHORT}, key=len, reverse=True)
    if chosen:
        answers = rf"(?<!\w)(?:{'|'.join(map(re.escape, chosen))})(?!\w)"
        spans += [(*match.span(), False) for match in re.finditer(answers, kept, re.I)]
    parts: list[Any] = []
    at = 0
    for start, end, searched in sorted(spans, key=lambda span: (span[0], not span[2])):
        if start < at:  # what was searched may lie within an answer, and the other way round
            continue
        parts.append(shown(kept[at:start]))
        told = kept[start:end]
        if searched and search is not None:
            parts.append(search.mark(told))
        else:
            parts.append(Markup("<mark>{}</mark>").format(shown(told)))
        at = end
    parts.append(shown(text[at:], most - at))
    return Markup("").join(parts)


def compared(before: str, after: str) -> tuple[Any, Any]:
    """Markup of two texts: words of the first that the second lacks, and the other way round."""
    from markupsafe import Markup

    a, b = (_PIECES.findall(text)[:_MOST_WORDS] for text in (before, after))
    one: list[Any] = []
    other: list[Any] = []
    for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        gone, come = "".join(a[a0:a1]), "".join(b[b0:b1])
        if kind == "equal":
            one.append(shown(gone))
            other.append(shown(come))
            continue
        if gone:
            one.append(Markup("<del>{}</del>").format(shown(gone)))
        if come:
            other.append(Markup("<ins>{}</ins>").format(shown(come)))
    return (
        Markup("").join([*one, shown(before[sum(map(len, a)) :])]),
        Markup("").join([*other, shown(after[sum(map(len, b)) :])]),
    )
