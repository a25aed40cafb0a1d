"""Published systems that something here implements.

Nothing is listed by hand: a recipe names its systems in ``[doc]``, a reward, dialect, curriculum or
way of merging models in its attribute ``systems``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..curricula import CURRICULA
from ..dialects.base import DIALECTS
from ..llms.merging import HOWS
from ..objects import load_known
from ..rewards import REWARDS
from .recipe_files import document, shipped

REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    "reward": REWARDS, "dialect": DIALECTS, "curriculum": CURRICULA, "merge": HOWS,
}  # fmt: skip


def implemented() -> dict[str, list[str]]:
    """System → what implements it or a part of it (``"reward ikea"``), in alphabetical order."""
    by_system: dict[str, list[str]] = {}
    for recipe in shipped():
        for system in doc.systems if (doc := document(recipe)) is not None else ():
            by_system.setdefault(system, []).append(f"recipe {recipe}")
    for kind, registry in REGISTRIES.items():
        for name, where in registry.items():
            for system in getattr(load_known(where), "__dict__", {}).get("systems", ()):
                by_system.setdefault(system, []).append(f"{kind} {name}")
    return dict(sorted(by_system.items(), key=lambda item: item[0].lower()))
