"""Published systems, how much of each is here, and by what.

A recipe names its systems in ``[doc]``, a reward, dialect or curriculum in its attribute
``systems``, and what of them is not here in ``missing``. ``systems.toml`` adds engines, families of
tasks and tools, and says of systems whether they are here as a whole.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..curricula import CURRICULA
from ..dialects.base import DIALECTS
from ..engines.registry import ENGINES
from ..objects import load_known
from ..rewards import REWARDS
from ..tasks.families import FAMILIES
from ..tools import TOOLS
from .recipe_files import document, shipped

Covers = Literal["whole", "part", "name only"]
NAMING: Mapping[str, Mapping[str, Any]] = {
    "reward": REWARDS, "dialect": DIALECTS, "curriculum": CURRICULA,
}  # fmt: skip
"""Registries whose objects name their systems themselves."""
REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    **NAMING, "engine": ENGINES, "task": FAMILIES, "tool": TOOLS,
}  # fmt: skip


class System(NamedTuple):
    """A published system."""

    covers: Covers
    """``"whole"``: what defines it is here; ``"part"``: the named component; ``"name only"``:
    something of ours after its aim, or a piece that does not define it."""
    missing: str
    """Words for what is not here; "" of a whole one."""
    here: tuple[str, ...]
    """Items that implement it: ``"reward ikea"``."""


@cache
def marks() -> Mapping[str, Any]:
    """Marks of all systems, as in ``systems.toml``."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def implemented() -> dict[str, System]:
    """System → how much of it is here, by what, and what is missing; in alphabetical order."""
    by_system: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for item, named in _naming():
        for system in named.get("systems", ()):
            by_system.setdefault(system, []).append(item)
            missing[system] = named.get("missing") or missing.get(system, "")
    for system, more in marks()["here"].items():
        by_system.setdefault(system, []).extend(more)
    names = sorted(by_system, key=str.lower)
    return {
        name: System(*_mark(name, missing.get(name, "")), tuple(by_system[name])) for name in names
    }


def _naming() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Items that name systems, and their attributes."""
    for recipe in shipped():
        if (doc := document(recipe)) is not None:
            yield f"recipe {recipe}", {"systems": doc.systems, "missing": doc.missing}
    for kind, registry in NAMING.items():
        for name, where in registry.items():
            yield f"{kind} {name}", getattr(load_known(where), "__dict__", {})


def _mark(name: str, missing: str) -> tuple[Covers, str]:
    """Mark of a system and what is missing, as the table says it, else as its items do."""
    known = marks()
    if name in known["part"]:
        return "part", str(known["part"][name])
    if name in known["name"]:
        return "name only", str(known["name"][name])
    return ("part" if missing and name not in known["whole"] else "whole"), missing
