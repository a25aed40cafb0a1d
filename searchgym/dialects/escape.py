"""Making foreign text harmless, and remembering how passages were written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

from ..types import Passage

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
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters (for a regular expression's class) that show nothing, so that a reader or a
tokenizer's normaliser may drop them from inside a tag."""


def loosely(name: str) -> str:
    """A pattern for a tag name with invisible characters between its letters.

    Possessive quantifiers: each run is read once, so matching stays linear.
    """
    return f"[{INVISIBLE}]*+".join(map(re.escape, name))


_LESS: Final = "<\ufe64\uff1c"
"""Signs that are ``<``, or become it by Unicode's compatibility form (NFKC), which some
tokenizers read."""
_BAR: Final = "|\uff5c"


def opener(names: Iterable[str]) -> re.Pattern[str]:
    """Matches the ``<`` of anything resembling an opening or closing tag of these names, and of a
    chat template's special token (``<|im_end|>``)."""
    names = list(names)
    loose = "|".join(map(loosely, names))
    first = "".join(sorted({re.escape(name[0]) for name in names}))  # refuses most at a glance
    return re.compile(
        rf"[{_LESS}](?=[\s/\\{INVISIBLE}]*+(?:(?=[{first}])(?:{loose})(?!\w)|[{_BAR}]))",
        re.IGNORECASE,
    )


_RESERVED = opener(TAGS)
_COMPATIBLE = (
    (0xAA, 0x250), (0x2B0, 0x300), (0x1D2C, 0x1DC0), (0x2070, 0x20A0), (0x2100, 0x2190),
    (0x2460, 0x2500), (0x2C7C, 0x2C7E), (0x3200, 0x3400), (0xA69C, 0xA69E), (0xA770, 0xA800),
    (0xAB5C, 0xAB70), (0xFB00, 0xFB07), (0xFE33, 0xFE70), (0xFF01, 0xFFF0), (0x10780, 0x107C0),
    (0x1CCD6, 0x1CD00), (0x1D400, 0x1D800), (0x1F100, 0x1F200),
)  # fmt: skip
"""Ranges of the characters that NFKC turns into letters."""


def _lookalikes(names: Iterable[str]) -> re.Pattern[str]:
    """Build :func:`opener` for names any letter of which has a form that NFKC makes plain (full
    width, mathematical, circled, several in one sign)."""
    names = list(names)
    parts = {name[i:j] for name in names for i in range(len(name)) for j in range(i + 1, i + 5)}
    signs: dict[str, str] = {part: part.upper() + part for part in parts if len(part) == 1}
    for first, last in _COMPATIBLE:
        for sign in map(chr, range(first, last)):
            plain = unicodedata.normalize("NFKC", sign).lower()
            if plain in parts:
                signs[plain] = signs.get(plain, "") + sign

    def spelt(ends: set[str]) -> str:
        """Return a pattern for any of these ends of names in any spelling; common beginnings are
        matched once."""
        parts = sorted({end[:n] for end in ends for n in range(1, 5)} & signs.keys())
        ways = [
            f"[{re.escape(signs[part])}][{INVISIBLE}]*+"
            + spelt({end.removeprefix(part) for end in ends if end.startswith(part)})
            for part in parts
        ]
        if "" in ends:
            ways.append(r"(?!\w)")
        return f"(?:{'|'.join(ways)})"

    def low(parts: set[str]) -> str:
        """Return a class of the first characters of signs; what lies above counts as one range."""
        ways = "".join(re.escape(c) for part in sorted(parts) for c in signs[part] if c <= "\uffff")
        return rf"[{ways}\U00010000-\U0010ffff]"

    beginning = low({name[:n] for name in names for n in range(1, 5)} & signs.keys())
    later = low({name[i:j] for name in names for i in range(1, len(name))
                 for j in range(i + 1, i + 5)} & signs.keys())  # fmt: skip
    before = rf"[\s/\\\uff0f\ufe68\uff3c{INVISIBLE}]"
    glance = f"(?={beginning}[{INVISIBLE}]*+{later})"  # refuses most before any name is tried
    return re.compile(rf"[{_LESS}](?={before}*+(?:{glance}{spelt(set(names))}|[{_BAR}]))")


_LOOKALIKE = _lookalikes(TAGS)


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
    """``clean``, and ``<`` becomes ``&lt;`` wherever a reserved tag might be seen, by a reader or
    by a tokenizer that writes look-alikes (``＜ａｎｓｗｅｒ＞``) in plain letters first."""
    text = clean(text)
    if text.isascii():
        return _RESERVED.sub("&lt;", text) if "<" in text else text
    if not any(sign in text for sign in _LESS):
        return text
    return _LOOKALIKE.sub("&lt;", text)


_MARKS: Final = (  # opening, closing
    (r"<\s*(?:seed:)?(?:longcat_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?)\s*>",
     r"<\s*/\s*(?:seed:)?(?:longcat_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?)\s*>"),
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThoughts, Sky-T1
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    ("<unused94>", "<unused95>"),  # MedGemma
    (r"<\|channel\|?>\s*(?:analysis|commentary|thought)\b",  # gpt-oss, Gemma
     r"<\|channel\|>\s*final\s*<\|message\|>|<channel\|>"),
)  # fmt: skip
_THOUGHT: Final = re.compile(
    "|".join(f"(?P<o{i}>{start})|(?P<c{i}>{end})" for i, (start, end) in enumerate(_MARKS)),
    re.IGNORECASE,
)


def without_thoughts(text: str) -> str:
    """Return a model's text without its thoughts, in the spellings that reasoning models use
    (``<think>…</think>``, ``[THINK]…[/THINK]``, …).

    A thought that is not closed lasts to the end. What stands before a closing mark that nothing
    opened is a thought, too: chat templates open it in the prompt.
    """
    said: list[str] = []
    start: int | None = 0
    inside = ""
    for mark in _THOUGHT.finditer(text):
        name = str(mark.lastgroup)
        if name[0] == "o":
            if start is not None:
                said.append(text[start : mark.start()])
                start, inside = None, name[1:]
        elif start is not None:
            said.clear()
            start = mark.end()
        elif name[1:] == inside:
            start = mark.end()
    return text if start == 0 else "".join(said) + ("" if start is None else text[start:])


_CONTROLS = re.compile(
    r"<(?=[|｜]|/?(?:s|bos|eos|pad|unk|mask|cls|sep|(?:start|end)_of_(?:turn|image|utterance))>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|CLS|SEP|"
    r"PAD|MASK|UNK)\])",
    re.IGNORECASE,
)


def escape_controls(text: str) -> str:
    """Rewrite what controls a model in the published families (``</s>``, ``<|im_end|>``,
    ``<end_of_turn>``, ``[/INST]``), for texts that go to a server whose tokenizer is not at hand;
    where it is, ``searchgym.llms.foreign`` reads every text safely."""
    return _CONTROLS.sub(lambda match: f"&#{ord(match[0])};", text)


def one_line(text: str) -> str:
    """Line feeds become blanks (titles, URLs, queries inside a line-based format)."""
    return text.replace("\n", " ") if "\n" in text else text


class PassageCache(dict[Passage, str]):
    """Remembers what ``write`` made of a passage; forgets the long unused, holds at most ``size``.

    ``cache[passage]`` writes what is not there. Two generations instead of an exact LRU: a hit is
    a plain look-up. Long results are not kept, so memory is bounded by ``size * longest``
    characters.
    """

    __slots__ = ("_half", "_longest", "_old", "_write")

    def __init__(
        self, write: Callable[[Passage], str], *, size: int = 65_536, longest: int = 4_096
    ) -> None:
        super().__init__()
        self._write = write
        self._half = max(1, size // 2)
        self._longest = longest
        self._old: dict[Passage, str] = {}

    def __len__(self) -> int:
        return super().__len__() + len(self._old)

    def __missing__(self, passage: Passage) -> str:
        # Keyed by value: Python keeps each string's hash, and equal objects compare by identity
        # first, so this is as fast as an id and can never confuse two passages.
        text = self._old.get(passage)
        if text is None:
            text = self._write(passage)
            if len(text) > self._longest:
                return text
        if super().__len__() >= self._half:
            self._old = dict(self)
            self.clear()
        self[passage] = text
        return text
