"""Agents that learn nothing and need nothing: the lowest bars a trained agent must clear.

All are stateless: what they do depends on the request, never on earlier calls or on batching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..dialects.base import get_dialect
from ..text import bare_title
from ..types import ABSTAIN, Action, Answer, Search, TurnRequest
from .state import State, read_state


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
