"""Keywords of ``gym.make`` that an environment's world, tasks, tools and rules are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from ..core.rules import RuleOptions, Rules, check_numbers
from ..dialects.base import get_dialect, is_self_search, self_search_form
from ..errors import CardError, EngineError, unknown
from ..types import Query

OF_THE_ENVIRONMENT = frozenset({"curriculum", "params", "render_mode", "search_enabled"})
"""Keywords of ``gym.make`` that are the environment's own and shared by no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(RuleOptions):
    """Keywords of ``gym.make``: strings, numbers and plain containers, so that specs serialise.

    ``corpus``, ``tasks`` and ``engine`` also take objects (a ``Corpus``, a list of ``Task``, a
    ``SearchEngine``) for people who bring their own.
    """

    corpus: Any = "encyclopedia"
    """A corpus card's name, a path to your files, ``"kg:PATH"`` for a knowledge graph's triples, or
    a ``Corpus`` or ``KnowledgeGraph``."""
    split: str = "train"
    """train | dev | test for worlds (separate worlds); a question file's split for real sets."""
    world: Mapping[str, Any] | None = None
    """Overrides of the card's world recipe: ``{"entities": 10_000, "seed": 3}``."""
    wording: Mapping[str, Any] | None = None
    """Overrides of how the world is put into words: ``{"phrasing": "heldout", "seed": 1}``,
    ``{"paraphrases": True}``."""
    tasks: Any = None
    """Tasks per family (``{"simple": 200}``), a question file, or tasks. None: the card's."""
    families: Sequence[str] | None = None
    """Keep only tasks of these families."""
    max_tasks: int | None = None
    """Keep only the first so many tasks."""
    data_dir: str | None = None
    engine: Any = "bm25"
    """``"bm25"``, ``"graph"``, a mapping with ``name`` and arguments, or a ``SearchEngine``.
    :data:`SELF`: no engine; the policy writes its own results."""
    tools: Sequence[Any] = ("search",)
    """Each a name of ``searchgym.tools.TOOLS``, an import path, ``{"use": either, **options}``, a
    class, a function or an object (``searchgym.tools.make_tool``)."""
    reward: Any = "em"
    """A reward part's name, an import path, a function, a list of these, or weights by part,
    e.g. ``{"f1": 1, "search": -0.02}``; see :class:`searchgym.rewards.Reward`."""

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Options:
        """Validate keywords; ``CardError`` suggests the nearest name for an unknown one, and is
        raised for a value that cannot be."""
        known = {f.name for f in fields(cls)}
        for name in keywords:
            if name not in known:
                raise CardError(unknown("environment option", name, known | OF_THE_ENVIRONMENT))
        options = cls(**keywords)
        check_numbers(options)
        if not isinstance(options.families, list | tuple | None):
            raise CardError(f"families is a list, for example ['simple'], got {options.families!r}")
        for name in ("world", "wording"):
            if not isinstance(given := getattr(options, name), Mapping | None):
                raise CardError(
                    f"{name} is a table of the card's settings to change, got {given!r}"
                )
        return options


RULES = frozenset({f.name for f in fields(Rules)} & {f.name for f in fields(Options)})
"""The options that change no world, task or engine."""


SELF = "self"
"""Name of the engine of an episode in which the policy is its own search engine (SSRL, arXiv
2508.10874): one text holds everything, thoughts, searches, the information the policy writes
itself, the answer. So there is one turn, no tool and no passage to be shown; the dialect's
self-search form reads the text."""
SELF_REWARD: Mapping[str, float] = {"em": 0.9, "format": 0.1}
"""SSRL's. ``format`` is its format score (``searchgym.scoring.ssrl_format``) in this mode."""
SELF_MAX_ACTION_CHARS = 100_000
"""A whole search's worth of text in one action (SSRL: 4,096 tokens)."""


class NoEngine:
    """Placeholder for the engine of a self-search environment: a name, and no answers."""

    needs_task = False
    fingerprint = SELF

    def cache_key(self, request: Query, /) -> None:
        return None

    def run(self, batch: Sequence[Query], /) -> NoReturn:
        raise EngineError(
            "in self-search no engine answers; build one beside the environment: "
            'searchgym.engines.build_engine("bm25", env.unwrapped.setup.corpus)'
        )


def adapted(options: Options, keywords: Mapping[str, Any]) -> Options:
    """``options`` as self-search needs them if ``engine`` asks for it, else unchanged.

    ``reward`` and ``max_action_chars`` get the mode's defaults where ``keywords`` do not set them.

    Raises:
        CardError: for a dialect without a self-search form, or methods that need turns.
    """
    engine = options.engine
    other = isinstance(engine, str) and engine != SELF
    if other and not is_self_search(options.dialect):
        return options
    if isinstance(engine, Mapping) and engine.get("name") == SELF:
        if len(engine) > 1:
            raise CardError(f"the engine 'self' takes no options, got {sorted(set(engine))}")
        engine = SELF
    if not (isinstance(engine, NoEngine) or (isinstance(engine, str) and engine == SELF)):
        if is_self_search(options.dialect):
            name = get_dialect(options.dialect).name
            raise CardError(f"the dialect {name!r} is for self-search: add engine='self'")
        return options
    for name in ("judge", "delegate"):
        if getattr(options, name):
            raise CardError(f"{name}=True needs turns; engine='self' is one uninterrupted text")
    given = "max_action_chars" in keywords
    max_chars = options.max_action_chars if given else SELF_MAX_ACTION_CHARS
    return replace(
        options,
        engine=NoEngine(),
        dialect=self_search_form(options.dialect),
        tools=(),
        max_turns=1,
        max_parallel=1,
        max_queries=None,
        reward=options.reward if "reward" in keywords else dict(SELF_REWARD),
        max_action_chars=max_chars,
    )
