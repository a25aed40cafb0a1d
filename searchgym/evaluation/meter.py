"""Usage of an agent's turns, episode by episode: tokens read and written, dollars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.rules import TOKEN_COUNTERS
from ..types import Agent, Failure, TurnRequest


class Meter:
    """Plays as the agent does, and adds up what its turns took.

    Agents that name their own ``token_counter`` hand out :class:`~searchgym.types.Metered` texts;
    of a turn that says nothing (a server that does not count, a failure) the episode's number is
    unknown. Of other agents' requests and texts the tokens are counted by ``counter``.
    """

    def __init__(self, agent: Agent, counter: str) -> None:
        self.agent = agent
        self._count = None if own_counter(agent) else TOKEN_COUNTERS[counter]
        self._took: dict[str, dict[str, float]] = {}

    def act(self, requests: Sequence[TurnRequest], /) -> Sequence[str | Failure]:
        texts: Any = self.agent.act(requests)
        if not hasattr(texts, "__len__"):  # the episodes refuse it
            return texts
        for request, text in zip(requests, texts, strict=False):  # the episodes refuse other sizes
            took = self._took.setdefault(request.episode_id, {})
            for name, n in self._turn(request, text).items():
                took[name] = took.get(name, 0.0) + n
        return texts

    def take(self, episode_id: str) -> dict[str, float]:
        """Return and forget an episode's usage; unknown numbers are left out."""
        took = self._took.pop(episode_id, {})
        return {name: n for name, n in took.items() if not math.isnan(n)}

    def _turn(self, request: TurnRequest, text: str | Failure) -> dict[str, float]:
        if self._count is not None:
            written = self._count(text) if isinstance(text, str) else 0  # not of a failure
            read = sum(self._count(segment.text) for segment in request.segments)
            return {"tokens_in": float(read), "tokens_out": float(written)}
        unknown = {"tokens_in": math.nan, "tokens_out": math.nan}
        return unknown | {k: float(v) for k, v in getattr(text, "usage", {}).items()}


def own_counter(agent: Agent) -> str | None:
    """Object that counts the agent's tokens, where it does so itself."""
    name = getattr(agent, "token_counter", None)
    return str(name) if name else None
