"""Experts: their protocol, and the base class of those that think and act in tags."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from searchgym.dialects.base import get_dialect
from searchgym.dialects.tags import TagDialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import DialectError, TaskError
from searchgym.types import Segment, Task, TurnRequest

Way = TypeVar("Way")


class Expert(Protocol):
    """An agent made of an environment, whose tasks and passages it knows.

    A registered expert (kind "expert" of a plug-in) is named in a card's ``demonstrations.expert``
    and in a recipe's ``rollout.expert``.
    """

    fingerprint: str

    def __init__(self, env: SearchEnv) -> None: ...

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """Return the text of a turn per request."""


class TagExpert(Generic[Way]):
    """An expert that knows a way to the answer of each question, in the tag dialects.

    ``DialectError`` for other dialects.
    """

    def __init__(self, env: SearchEnv) -> None:
        dialect = get_dialect(env.rules.dialect)
        if not isinstance(dialect, TagDialect):
            raise DialectError(f"thoughts are written in tag dialects, not in {dialect.name!r}")
        self._dialect = dialect
        self._ways = {dialect.question(task.question): way for task, way in self._known(env)}

    @abstractmethod
    def _known(self, env: SearchEnv) -> Iterable[tuple[Task, Way]]:
        """Tasks of the environment, and how each is solved."""

    @abstractmethod
    def _act(self, request: TurnRequest) -> str:
        """A thought and an action."""

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """A thought and an action per request; stateless."""
        return [self._act(request) for request in requests]

    def _asked(self, segments: Sequence[Segment]) -> str:
        """The question as the dialect writes it, under whatever instructions it stands."""
        asked = next(s for s in segments if s.kind == "question")
        return self._dialect.question(asked.asked) if asked.asked else asked.text

    def _way(self, segments: Sequence[Segment]) -> Way:
        """The way to the answer; ``TaskError`` for a question of another setting."""
        question = self._asked(segments)
        if question not in self._ways:
            raise TaskError(f"no task asks {question.strip()[:200]!r}; give the oracle its setting")
        return self._ways[question]

    def _tried(self, request: TurnRequest) -> set[object]:
        """The actions that the policy has taken so far."""
        return {
            self._dialect.parse(s.text).action for s in request.segments if s.author == "policy"
        }
