"""Making foreign text harmless, and remembering how passages were written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from searchgym.types import Passage

TAGS: Final = (
    "think",
    "search",
    "information",
    "answer",
    "access",
    "judge",
    "task",
    "report",
    "tool",
    "tool_call",
    "tool_response",
)
"""Reserved in every tag dialect alike, so that a transcript can be read by any of them."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]++")
_DROP_CONTROL = dict.fromkeys([*range(9), *range(11, 32), 127])
INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Characters (for a regular expression's class) that show nothing, so that a reader or a
tokenizer's normaliser may drop them from inside a tag."""


def loosely(name: str) -> str:
    """A pattern for a tag name with invisible characters between its letters.

    Possessive quantifiers: each run is read once, so matching stays linear.
    """
    return f"[{INVISIBLE}]*+".join(map(re.escape, name))


def opener(names: Iterable[str]) -> re.Pattern[str]:
    """Matches the ``<`` of anything resembling an opening or closing tag of these names, and of a
    chat template's special token (``<|im_end|>``)."""
    names = list(names)
    loose = "|".join(map(loosely, names))
    first = "".join(sorted({re.escape(name[0]) for name in names}))  # refuses most at a glance
    return re.compile(
        rf"<(?=[\s/\\{INVISIBLE}]*+(?:(?=[{first}])(?:{loose})(?!\w)|\|))", re.IGNORECASE
    )


_RESERVED = opener(TAGS)


def clean(text: str) -> str:
    """Drop control characters (carriage returns become line feeds); lone surrogates become ``?``.

    Line feeds and tabs stay. Text without control characters is returned as it is.
    """
    if text.isprintable():  # the common case, and by far the cheapest test
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text.translate(_DROP_CONTROL)
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode()


def escape_tags(text: str) -> str:
    """``clean``, and ``<`` becomes ``&lt;`` wherever a reserved tag might be seen."""
    text = clean(text)
    return _RESERVED.sub("&lt;", text) if "<" in text else text


def one_line(text: str) -> str:
    """Line feeds become blanks (titles, URLs, queries inside a line-based format)."""
    return text.replace("\n", " ") if "\n" in text else text


class PassageCache:
    """Remembers what ``write`` made of a passage; forgets the long unused, holds at most ``size``.

    Two generations instead of an exact LRU: a hit costs one look-up and no bookkeeping. Long
    results are not kept, so memory is bounded by ``size * longest`` characters.
    """

    __slots__ = ("_half", "_longest", "_old", "_write", "_young")

    def __init__(
        self, write: Callable[[Passage], str], *, size: int = 65_536, longest: int = 4_096
    ) -> None:
        self._write = write
        self._half = max(1, size // 2)
        self._longest = longest
        self._young: dict[Passage, str] = {}
        self._old: dict[Passage, str] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __call__(self, passage: Passage) -> str:
        # Keyed by value: Python keeps each string's hash, and equal objects compare by identity
        # first, so this is as fast as an id and can never confuse two passages.
        text = self._young.get(passage)
        if text is not None:
            return text
        text = self._old.get(passage)
        if text is None:
            text = self._write(passage)
            if len(text) > self._longest:
                return text
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[passage] = text
        return text
