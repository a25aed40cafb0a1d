"""Marks in texts: the words of a search, as the index's tokenizer compares them, answers in
passages, differences between two texts, and the colours of tokens."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from ..web.pages import MOST_CHARS, shown
from .query import query_words
from .record import Record, Token

REACH = 70
"""Characters of a snippet on each side of what was found."""


_MOST_WORDS = 3000
"""Largest number of words of each text that are compared; comparing takes their product."""
_SHORT = 3
"""Answers below so many characters ("no", "4") would mark half a page."""
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")


class SearchTerms:
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
    return text.lower() if text.isascii() else "".join(map(_folded, text))


@cache
def _folded(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0].lower()
    return base if len(base) == 1 else character


def marked(
    text: str, needles: Sequence[str], most: int = MOST_CHARS, search: SearchTerms | None = None
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


# --- tokens of training rows, in levels, since pages allow no inline styles ---------------------
MOST_TOKENS = 20_000
LEVELS = 6
COLOURS = {
    "advantage": "advantage",
    "logp": "log-probability",
    "mask": "what is trained on",
}
_LOGP = (-0.05, -0.25, -0.7, -1.5, -3.0)
"""Upper ends of levels: probabilities of .95, .78, .50, .22, .05."""


class Cell(NamedTuple):
    """A token as it is shown."""

    text: str
    style: str
    told: str
    """Numbers of the token, in words."""


class TurnSum(NamedTuple):
    """The sampled tokens of one turn, together."""

    number: int
    sampled: int
    trained: int
    logp: float
    advantage: float


class TokenLine(NamedTuple):
    cells: list[Cell]
    sampled: int
    trained: int
    turns: list[TurnSum]
    flat: bool
    """True if tokens were trained on, but every advantage is 0."""
    left: int
    """Tokens that are not shown."""


def coloured(rows: Sequence[Sequence[Token]], by: str) -> list[TokenLine]:
    """Rows of cells, coloured by one of :data:`COLOURS`; :data:`MOST_TOKENS` in all."""
    widest = max((abs(t.advantage) for row in rows for t in row if t.advantage), default=0.0)
    room = MOST_TOKENS
    made = []
    for row in rows:
        cells = [Cell(t.text, _style(t, by, widest), _told(t)) for t in row[:room]]
        sampled = sum(t.turn is not None for t in row)
        trained = [t for t in row if t.trained]
        flat = bool(trained) and not any(t.advantage for t in trained)
        left = len(row) - len(cells)
        made.append(TokenLine(cells, sampled, len(trained), _sums(row), flat, left))
        room -= len(cells)
    return made


def _sums(row: Sequence[Token]) -> list[TurnSum]:
    turns: dict[int, list[Token]] = {}
    for token in row:
        if token.turn is not None:
            turns.setdefault(token.turn, []).append(token)
    return [
        TurnSum(
            number, len(mine), sum(t.trained for t in mine), sum(t.logp or 0.0 for t in mine),
            sum(t.advantage or 0.0 for t in mine if t.trained),
        )
        for number, mine in sorted(turns.items())
    ]  # fmt: skip


def _style(token: Token, by: str, widest: float) -> str:
    if token.turn is None:
        return "read"
    if by == "mask":
        return "trained" if token.trained else "masked"
    if by == "logp":
        if token.logp is None:
            return "read"
        return f"p{next((i for i, end in enumerate(_LOGP) if token.logp >= end), len(_LOGP))}"
    if not token.trained or token.advantage is None:
        return "masked"
    if not token.advantage or not widest:
        return "a0"
    level = min(LEVELS - 1, 1 + int(abs(token.advantage) / widest * (LEVELS - 1.001)))
    return f"{'up' if token.advantage > 0 else 'down'}{level}"


def _told(token: Token) -> str:
    if token.turn is None:
        return "read, not sampled"
    parts: list[Any] = [f"turn {token.turn + 1}", "trained on" if token.trained else "masked"]
    if token.logp is not None:
        parts.append(f"log-probability {token.logp:z.3f}")
    if token.advantage is not None:
        parts.append(f"advantage {token.advantage:+z.3f}")
    return ", ".join(parts)
