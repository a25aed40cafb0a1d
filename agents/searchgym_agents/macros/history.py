"""What happened in an episode, read off a turn request: the question, and each call with what it
brought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from searchgym.agents.simple import unwrapped
from searchgym.dialects.base import get_dialect
from searchgym.types import Action, Call, Hit, Search, TurnRequest


class Event(NamedTuple):
    """A call or search, and what came back."""

    action: Action
    text: str
    hits: tuple[Hit, ...]


class History(NamedTuple):
    """An episode so far."""

    question: str
    events: list[Event]

    def of(self, tool: str) -> list[Event]:
        """The calls of a tool, or searches."""
        return [
            event for event in self.events
            if (isinstance(event.action, Call) and event.action.tool == tool)
            or (tool == "search" and isinstance(event.action, Search))
        ]  # fmt: skip

    def arguments(self, tool: str) -> list[Mapping[str, Any]]:
        """The arguments of its calls."""
        return [e.action.args for e in self.of(tool) if isinstance(e.action, Call)]


def read_history(request: TurnRequest) -> History:
    """Read the visible segments of a request."""
    dialect = get_dialect(request.dialect)
    question, events = "", []
    action: Action | None = None
    for segment in request.segments:
        if segment.kind == "question":
            question = unwrapped(segment.asked or segment.text)
        elif segment.author == "policy":
            action = dialect.parse(segment.text).action
        elif action is not None and segment.kind == "results":
            text = segment.text.replace("<information>", "").replace("</information>", "")
            events.append(Event(action, text.strip(), segment.hits))
            action = None
    return History(question, events)


def between(text: str, begin: str, end: str) -> str:
    """What stands after the last ``begin`` and before the next ``end``; "" where there is none."""
    _, found, rest = text.rpartition(begin)
    said, closed, _ = rest.partition(end)
    return said if found and closed else ""


def tail(description: str) -> str:
    """The name at the end of a description: “the home town of N” → N."""
    words = description.split(" ")
    first = next((i for i, w in enumerate(words) if w[:1].isupper() or w[:1].isdigit()), 0)
    return " ".join(words[first:])
