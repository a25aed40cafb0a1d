"""``engine="self"``: an episode mode in which the policy is its own search engine (SSRL, arXiv
2508.10874).

One text holds everything: thoughts, searches, the information the policy writes itself, the answer.
So there is one turn, no tool and no passage to be shown; the dialect's self-search form reads the
text. Options about tools, queries, passages and turns have nothing to act on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from ..dialects.base import get_dialect
from ..dialects.specs import is_self_search, self_search_form
from ..errors import CardError, EngineError
from ..types import Query

if TYPE_CHECKING:
    from .options import Options

NAME = "self"
REWARD: Mapping[str, float] = {"em": 0.9, "format": 0.1}
"""SSRL's. ``format`` is its format score (``searchgym.scoring.ssrl_format``) in this mode."""
MAX_ACTION_CHARS = 100_000
"""A whole search's worth of text in one action (SSRL: 4,096 tokens)."""


class NoEngine:
    """Placeholder for the engine of a self-search environment: a name, and no answers."""

    needs_task = False
    fingerprint = NAME

    def cache_key(self, request: Query, /) -> None:
        return None

    def run(self, batch: Sequence[Query], /) -> NoReturn:
        raise EngineError(
            "in self-search no engine answers; build one beside the environment: "
            'searchgym.engines.build_engine("bm25", env.unwrapped.setup.corpus)'
        )


def adapted(options: Options, keywords: Mapping[str, Any]) -> Options:
    """``options`` as the mode needs them if ``engine`` asks for it, else unchanged.

    ``reward`` and ``max_action_chars`` get the mode's defaults where ``keywords`` do not set them.

    Raises:
        CardError: for a dialect without a self-search form, or methods that need turns.
    """
    engine = options.engine
    if isinstance(engine, Mapping) and engine.get("name") == NAME:
        if len(engine) > 1:
            raise CardError(f"the engine 'self' takes no options, got {sorted(set(engine))}")
        engine = NAME
    chosen = isinstance(engine, NoEngine) or (isinstance(engine, str) and engine == NAME)
    if not chosen:
        if is_self_search(options.dialect):
            name = get_dialect(options.dialect).name
            raise CardError(f"the dialect {name!r} is for self-search: add engine='self'")
        return options
    for name in ("judge", "delegate"):
        if getattr(options, name):
            raise CardError(f"{name}=True needs turns; engine='self' is one uninterrupted text")
    return replace(
        options,
        engine=NoEngine(),
        dialect=self_search_form(options.dialect),
        tools=(),
        max_turns=1,
        max_parallel=1,
        max_queries=None,
        reward=options.reward if "reward" in keywords else dict(REWARD),
        max_action_chars=(
            options.max_action_chars if "max_action_chars" in keywords else MAX_ACTION_CHARS
        ),
    )
