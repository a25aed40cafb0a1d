"""The self-writing oracle: it plays the search engine, too, and states what the pages say."""

from __future__ import annotations

from collections.abc import Sequence

from searchgym.agents.oracle import OracleAgent
from searchgym.core.oracle import self_search_text
from searchgym.dialects.base import get_dialect
from searchgym.dialects.search_r1 import SelfSearch
from searchgym.envs.search import SearchEnv
from searchgym.errors import DialectError
from searchgym.types import TurnRequest


class SelfWritingOracle(OracleAgent):
    """Answers a setting's questions in self-search: one text with the gold queries and passages.

    ``TaskError`` for questions of other settings; ``DialectError`` for other dialects.
    """

    registered = "expert:self_writing"
    fingerprint = "self-writing-oracle"

    def __init__(self, env: SearchEnv) -> None:
        super().__init__(env.tasks)
        self._passage, self._chars = env.corpus.passage, env.rules.snippet_chars

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
        task = self._task(request, dialect)
        assert task is not None  # self-search delegates nothing
        return self_search_text(task, dialect, self._passage, self._chars)
