"""What an episode records of its turns and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from .types import Action, Failure, Span, ToolCall, ToolResult

End = Literal["answered", "unanswered", "max_turns", "max_chars", "max_tokens", "infra_error"]
"""``answered`` terminates (a refusal is an answer too), and so does ``unanswered``: the one text of
a self-search episode held no answer, and nothing would have followed it. All others truncate."""
TERMINAL: frozenset[End] = frozenset({"answered", "unanswered"})


class Opened(NamedTuple):
    """A turn whose action is known and whose results are not."""

    number: int
    context: int
    role: str
    prompt: tuple[str, ...]
    text: str
    action: Action
    spans: tuple[Span, ...]


class Turn(NamedTuple):
    """One action and what it earned."""

    number: int
    context: int
    role: str
    prompt: tuple[str, ...]
    """Ids of the segments the policy saw, in order."""
    text: str
    """What the policy wrote, cut after the action."""
    action: Action
    spans: tuple[Span, ...]
    """Parsed pieces of ``text``, in characters."""
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult | Failure, ...]
    reward_parts: Mapping[str, float]
    """What the turn earned, by part, unweighted; zeros are left out. In the last turn also the
    parts of the end, zeros included, unless the infrastructure failed."""
    reward: float
