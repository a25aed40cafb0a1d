"""Reads the state of an episode from a turn request alone: stateless, hence cacheable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..types import Passage, TurnRequest


class State(NamedTuple):
    """A decision point. Equal states have equal candidates and features."""

    question: str
    queries: tuple[str, ...]
    """Queries searched so far, in order."""
    found: tuple[tuple[Passage, int, int], ...]
    """Each passage seen, first sighting only: (passage, rank from 0, number of the turn)."""
    turns_left: int
    queries_left: int | None
    can_search: bool


def read_state(request: TurnRequest) -> State:
    """The state behind a request: its question, own queries and the passages shown.

    Own queries are read with the request's dialect from the policy's ``action`` segments.
    """
    from ..dialects.base import get_dialect

    dialect = get_dialect(request.dialect)
    question = ""
    queries: list[str] = []
    shown: dict[str, tuple[Passage, int, int]] = {}
    turn = 0
    for segment in request.segments:
        if segment.kind in ("question", "task") and not question:
            question = unwrapped(segment.asked or segment.text)
        elif segment.kind == "action" and segment.author == "policy":
            action = dialect.parse(segment.text).action
            queries.extend(getattr(action, "queries", ()))
        if segment.hits:
            for rank, hit in enumerate(segment.hits):
                shown.setdefault(hit.passage.id, (hit.passage, rank, turn))
            turn += 1
    searches = any(tool.name == "search" for tool in request.tools)
    left = request.queries_left if searches else 0
    return make_state(question, queries, shown.values(), request.turns_left, left)


def unwrapped(text: str) -> str:
    """A question without the "Question: " that dialects put before it, and the tag after it."""
    text = text.strip()
    if text[:9].lower() == "question:":
        text = text[9:].lstrip()
    return text[:-7].rstrip() if text[-7:].lower() == "<think>" else text


def make_state(
    question: str,
    queries: Iterable[str],
    shown: Iterable[tuple[Passage, int, int]],
    turns_left: int,
    queries_left: int | None,
) -> State:
    """A state from its parts; searching needs a turn to spare for the answer and a query left."""
    can_search = turns_left > 1 and (queries_left is None or queries_left > 0)
    return State(question, tuple(queries), tuple(shown), turns_left, queries_left, can_search)
