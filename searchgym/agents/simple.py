"""Agents that need no model: plain functions, the first hit, a constant answer."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..dialects.base import get_dialect
from ..errors import CardError, EpisodeError
from ..text import bare_title
from ..types import ABSTAIN, Action, Answer, Failure, Search, TurnRequest
from .state import State, read_state

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
