"""Colours for tokens of training rows, in levels, since pages allow no inline styles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .record import Token

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
        parts.append(f"log-probability {token.logp:.3f}")
    if token.advantage is not None:
        parts.append(f"advantage {token.advantage:+.3f}")
    return ", ".join(parts)
