"""The self-writing oracle: it plays the search engine, too, and states what the pages say."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.oracle import self_search_text
from ..dialects.base import get_dialect
from ..dialects.self_search import SelfSearch
from ..envs.search import SearchEnv
from ..errors import DialectError, TaskError
from ..types import TurnRequest


class SelfWritingOracle:
    """Answers a setting's questions in self-search: one text with the gold queries and passages.

    ``TaskError`` for questions of other settings; ``DialectError`` for other dialects.
    """

    fingerprint = "self-writing-oracle"

    def __init__(self, env: SearchEnv) -> None:
        self._corpus, self._chars = env.corpus, env.rules.snippet_chars
        self._tasks = {task.question: task for task in env.tasks}

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One text per request; stateless."""
        return [self._text(request) for request in requests]

    def _text(self, request: TurnRequest) -> str:
        dialect = get_dialect(request.dialect)
        if not isinstance(dialect, SelfSearch):
            raise DialectError(
                f"this oracle writes self-search texts, got dialect {request.dialect!r}; make the "
                "environment with engine='self'"
            )
        asked = next(s for s in request.segments if s.kind == "question")
        shown = asked.asked or asked.text
        task = self._tasks.get(shown) or next(
            (t for q, t in self._tasks.items() if dialect.question(q) == shown), None
        )
        if task is None:
            raise TaskError(f"this oracle knows no task that asks {shown.strip()[:200]!r}")
        return self_search_text(task, dialect, self._corpus.passage, self._chars)
