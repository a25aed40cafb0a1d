"""Reward parts by name, what ``reward="f1"`` means; and where an object of a reward is from: its
definition, import path, options and source digest."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from ..plugins import Registry
from ..utils import trust

_HERE = "searchgym.rewards."
TURN = ("search", "access", "call", "invalid", "evidence")
"""Parts of turns that every episode measures, whatever its reward pays for."""
FINAL = ("em", "f1", "cover_em", "format")
"""Parts of the end that every episode measures."""
PUBLIC = frozenset({"search", "access", "call", "invalid"})
"""Parts that say nothing which the action does not say itself."""
MEASURED: Mapping[str, str] = {
    **{name: f"{_HERE}part:{name}" for name in (*TURN, "answer_in_results")},
    **{name: f"{_HERE}outcome:{name}" for name in (*FINAL, "set_f1")},
}
"""Name → import path of the plain measures."""


REWARDS = Registry("reward", MEASURED, package="searchgym.rewards")
"""Name → import path: the plain measures, then classes with a line ``registered = "name"``. Others
are named by their own import path."""


def source_digest(measure: Any) -> str:
    """``sha256:…`` of the source text of a function, or of an object's class; ``""`` where there is
    none, as for what was typed into an interpreter."""
    digest = trust.source_digest(definition(measure))
    return f"sha256:{digest}" if digest else ""


def told(measure: Any) -> str:
    """An object for a message: its definition's qualified name, or its value."""
    if isinstance(measure, (str, int, float, bool, type(None), list, dict, tuple)):
        return repr(measure)
    where = definition(measure)
    return f"{where.__module__}:{where.__qualname__}"


def definition(measure: Any) -> Any:
    """The function or class that an object is made of."""
    if isinstance(measure, partial):
        return definition(measure.func)
    if inspect.ismethod(measure):
        return measure.__func__
    return measure if inspect.isfunction(measure) or inspect.isclass(measure) else type(measure)


def declared(measure: Any, name: str) -> Any:
    """An attribute of the object, or of the function that a partial one completes."""
    return getattr(measure.func if isinstance(measure, partial) else measure, name, None)


def fields_of(made: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A data class's options with its defaults; of other objects, the options given."""
    if not is_dataclass(made):
        return options
    return {f.name: getattr(made, f.name) for f in fields(made) if f.init}


def path_of(made_of: Any) -> str:
    """The registered name or import path of a function or class; ``""`` where none leads to it."""
    module = getattr(made_of, "__module__", "")
    path = getattr(made_of, "__qualname__", "")
    reached: Any = sys.modules.get(module)
    for name in path.split("."):
        reached = getattr(reached, name, None)
    if reached is not made_of:
        return ""
    return registered(f"{module}:{path}")


def registered(use: str) -> str:
    """The registered name of an import path that has one; others as they are."""
    plain = next((name for name, path in MEASURED.items() if path == use), "")
    module, _, path = use.partition(":")
    claimed = getattr(getattr(sys.modules.get(module), path, None), "registered", "")
    name = str(claimed).rpartition(":")[2]
    return plain or (name if name and REWARDS.get(name) == use else use)


def is_json(value: Any) -> bool:
    """Check whether a value comes back from JSON as it was."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
