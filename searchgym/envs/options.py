"""Keywords of ``gym.make`` that an environment's world, tasks, tools and rules are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..core.rules import RuleOptions, Rules, check_numbers
from ..errors import CardError, unknown

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
    ``"self"``: no engine; the policy writes its own results (see ``searchgym.envs.self_mode``)."""
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
        if isinstance(options.families, str):
            raise CardError(
                f"families is a list, for example [{options.families!r}]; got {options.families!r}"
            )
        return options


RULES = frozenset({f.name for f in fields(Rules)} & {f.name for f in fields(Options)})
"""The options that change no world, task or engine."""
