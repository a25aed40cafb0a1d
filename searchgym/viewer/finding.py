"""Places of a search's words in a text, as the index's tokenizer compares them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from ..web.text import shown
from .query import query_words
from .record import Record

REACH = 70
"""Characters of a snippet on each side of what was found."""


class Needles:
    """The words of a search, to be marked in texts: all but the last one whole, the last one as a
    beginning, since it may still be being typed. Case and diacritics are ignored.

    Args:
        text: What was typed; without words, nothing is found.
    """

    def __init__(self, text: str = "") -> None:
        words = [fold(word) for word in query_words(text)]
        exact = [rf"{re.escape(word)}(?![^\W_])" for word in words[:-1]]
        begun = [rf"{re.escape(words[-1])}[^\W_]*"] if words else []
        choice = "|".join(sorted((*exact, *begun), key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![^\W_])(?:{choice})") if words else None
        self.marks = 0
        """Places that were marked so far."""

    def __bool__(self) -> bool:
        return self._pattern is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of each place."""
        if self._pattern is None:
            return []
        return [match.span() for match in self._pattern.finditer(fold(text))]

    def mark(self, text: str) -> Any:
        """Markup of one place; the first of a page is the target of ``#found``."""
        from markupsafe import Markup

        self.marks += 1
        name = ' id="found" tabindex="-1"' if self.marks == 1 else ""
        return Markup(f'<mark class="found"{name}>{{}}</mark>').format(shown(text))

    def snippet(self, record: Record) -> Any:
        """Markup of the first place in what was written or shown; "" if only elsewhere."""
        for text in _texts(record):
            if spans := self.spans(text):
                return self.around(text, spans)
        return ""

    def around(self, text: str, spans: Sequence[tuple[int, int]]) -> Any:
        """Markup of the neighbourhood of the first span, with all in it marked."""
        from markupsafe import Markup

        start, end = max(0, spans[0][0] - REACH), min(len(text), spans[0][1] + REACH)
        parts: list[Any] = ["…" if start else ""]
        at = start
        for first, last in spans:
            if last > end:
                break
            parts += [
                shown(text[at:first]),
                Markup("<mark>{}</mark>").format(shown(text[first:last])),
            ]
            at = last
        parts += [shown(text[at:end]), "…" if end < len(text) else ""]
        return Markup("").join(parts)


def _texts(record: Record) -> list[str]:
    """Texts of a record besides its question, in the order in which one reads them."""
    texts = []
    for turn in record.turns:
        texts += [turn.text, *turn.failures, *(hit.text for hit in turn.hits)]
        texts += [o.text for o in turn.observations]
    return [*texts, record.answer, *record.answers]


def fold(text: str) -> str:
    """The text in lower case and without diacritics, character by character: of equal length."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


class _Folding(dict[int, str]):
    """Character → its folded form, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        base = unicodedata.normalize("NFD", character)[0].lower()
        self[code] = folded = base if len(base) == 1 else character
        return folded


_FOLDED = _Folding()
