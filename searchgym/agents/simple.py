"""Agents that need no model: plain functions, the first hit, a constant answer; and the state of an
episode, read from a turn request alone: stateless, hence cacheable."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..dialects.base import get_dialect
from ..errors import CardError, EpisodeError
from ..text import bare_title
from ..types import ABSTAIN, Action, Answer, Failure, Passage, Search, TurnRequest


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


FORMS = {
    "requests": "a whole batch of turn requests, and returns a list of texts",
    "request": "one turn request, and returns a text",
    "prompt": "what the agent sees as one text, and returns a text",
}


class FunctionAgent:
    """Asks ``function``, whose parameter's name says what it takes (:data:`FORMS`).

    Raises:
        CardError: it has another form.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        form = form_of(function)
        if form is None:
            ways = "; ".join(f"{name!r}: {what}" for name, what in FORMS.items())
            raise CardError(
                f"{function!r} is no agent: an agent has act(requests), or is a function whose one "
                f"parameter is called {ways}"
            )
        self.function, self.form = function, form
        self.fingerprint = getattr(function, "fingerprint", None)
        self.__doc__ = function.__doc__

    def act(self, requests: Sequence[TurnRequest], /) -> list[str | Failure]:
        texts: list[Any]
        if self.form == "requests":
            texts = list(self.function(requests))
        elif self.form == "request":
            texts = [self.function(request) for request in requests]
        else:
            texts = [self.function("".join(s.text for s in r.segments)) for r in requests]
        for text in texts:
            if not isinstance(text, (str, Failure)):
                name = getattr(self.function, "__name__", repr(self.function))
                raise EpisodeError(
                    f"{name}() returned {type(text).__name__} where a text was expected: return "
                    "what the agent writes, e.g. '<search> … </search>'"
                )
        return texts


def form_of(function: Callable[..., Any]) -> str | None:
    """Return which of :data:`FORMS` a function has; None for classes and other functions."""
    if inspect.isclass(function):
        return None
    try:
        takes = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins have no signature
        return None
    needed = [p.name for p in takes if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return needed[0] if len(needed) == 1 and needed[0] in FORMS else None


class Scripted(ABC):
    """An agent that decides on one state at a time."""

    @abstractmethod
    def decide(self, state: State, request: TurnRequest) -> Action: ...

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        out = []
        for request in requests:
            action = self.decide(read_state(request), request)
            out.append(get_dialect(request.dialect).render_action(action))
        return out


class FirstHitAgent(Scripted):
    """Searches the question, then answers with the title of the top hit."""

    def decide(self, state: State, request: TurnRequest) -> Action:
        if state.can_search and not state.queries:
            return Search((state.question,))
        return Answer(bare_title(state.found[0][0].title) if state.found else ABSTAIN)


class ConstantAgent:
    """Gives always the same answer without searching: "yes", the majority answer, or a refusal."""

    def __init__(self, answer: str = ABSTAIN) -> None:
        self.answer = answer

    @property
    def fingerprint(self) -> str:
        """The answer: the majority's is another one where other questions are asked."""
        return f"says {self.answer}"

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        return [get_dialect(r.dialect).render_action(Answer(self.answer)) for r in requests]
