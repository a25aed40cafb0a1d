"""Effects of a difficulty vector on an episode: rules, parameters, and axes that cannot act.

``hops``, ``branches`` and ``blur`` choose tasks (the task pool); ``noise``, ``distractors`` and
``top_k`` go to the search tool with every call; the others change the rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from numbers import Real
from typing import NamedTuple

from ..core.rules import Rules
from ..curricula import AXES, difficulty_of
from ..errors import CardError
from .setup import SearchSetup

SEARCHES = ("noise", "distractors", "top_k", "truncation", "cost")
"""Axes that act on searches and their results."""
RULES = ("top_k", "distractors", "truncation", "turns", "tools")
"""Axes that change an episode's rules."""
VARIANTS = 1_000
"""Sets of rules kept; a schedule of ``truncation`` may go through thousands."""


class EpisodeDifficulty(NamedTuple):
    """An episode's rules, and its parameters with axes as whole numbers where they are such."""

    rules: Rules
    params: dict[str, float]


def apply_difficulty(shared: SearchSetup, params: Mapping[str, float]) -> EpisodeDifficulty:
    """``params`` put to work in an environment.

    Raises:
        CardError: a parameter is no finite number, or nearly an axis's name; an axis is out of
            range, or cannot act here: it says why and what would help.
    """
    for name in params:
        if (axis := _meant(name)) is not None and name not in getattr(shared.engine, "axes", ()):
            raise CardError(f"unknown difficulty axis {name!r}: did you mean {axis!r}?")
    params = {name: _number(name, value) for name, value in params.items()}
    axes = difficulty_of(params)
    if not axes:
        return EpisodeDifficulty(shared.rules, dict(params))
    for name in axes:
        if (why := why_unavailable(shared, name)) is not None:
            raise CardError(f"the difficulty axis {name!r} cannot act here: {why}")
    rules, offered = shared.rules, len(shared.rules.tools)
    if axes.get("tools", 0) > offered:
        names = ", ".join(tool.name for tool in rules.tools)
        raise CardError(
            f"the difficulty axis 'tools' is at most {offered} here ({names}), got {axes['tools']}"
        )
    out = {**params, **axes}
    if "cost" in axes:
        if "w_search" in params:
            raise CardError(
                "the axis 'cost' and the parameter 'w_search' are one thing (w_search = -cost); "
                "give one"
            )
        out["w_search"] = -axes["cost"]
    return EpisodeDifficulty(_rules(shared, axes), out)


@cache
def _meant(name: str) -> str | None:
    """The axis that a name which is none was probably meant to be. Other names are let through:
    engines and rewards of one's own may read any."""
    if name in AXES or name.startswith("w_"):
        return None
    return next(iter(get_close_matches(name.lower(), AXES, n=1, cutoff=0.8)), None)


def _rules(shared: SearchSetup, axes: Mapping[str, float]) -> Rules:
    """The environment's rules where no axis changes them; equal changes share one object."""
    whole = {axis: int(axes[axis]) for axis in RULES if axis in axes}
    name = tuple([whole.get(axis) for axis in RULES])
    if all(value is None for value in name):
        return shared.rules
    if name not in shared.variants:
        if len(shared.variants) >= VARIANTS:
            shared.variants.clear()
        rules = shared.rules
        shared.variants[name] = replace(
            rules,
            # what instructions say of the results' number
            k=whole.get("top_k", rules.k) + whole.get("distractors", 0),
            snippet_chars=whole.get("truncation", rules.snippet_chars),
            max_turns=whole.get("turns", rules.max_turns),
            tools=rules.tools[: whole.get("tools", len(rules.tools))],
        )
    return shared.variants[name]


def why_unavailable(shared: SearchSetup, axis: str) -> str | None:
    """Explain why an axis cannot act in an environment and what would help; ``None`` if it can."""
    from .options import NoEngine

    tools = shared.toolbox.tools
    if isinstance(shared.engine, NoEngine) and axis not in ("hops", "branches", "blur"):
        return "in self-search there are no tools, no results and one turn"
    if axis in SEARCHES and "search" not in tools:
        return f"it acts on searches, and the tools are {', '.join(tools) or 'none'}"
    if axis == "noise" and axis not in getattr(shared.engine, "axes", ()):
        return (
            f"{type(shared.engine).__name__} gives no noisy results; use "
            "engine={'name': 'degraded', 'engine': …}, 'simulated', 'simulated_rules', or an "
            "engine that reads ctx.params['noise'] and says so (axes = {'noise'})"
        )
    return None  # whether tasks say their branches and blur is found out by the pool


def _number(name: str, value: object) -> float:
    """A plain, finite number, also from a NumPy one: parameters end up in records, which are
    JSON."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise CardError(f"the difficulty parameter {name!r} must be a number, got {value!r}")
    return value if isinstance(value, (int, float)) else float(value)
