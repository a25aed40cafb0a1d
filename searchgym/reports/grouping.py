"""Runs that differ in their seed only, as one series."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .sources import Curve, Run


class RunGroup(NamedTuple):
    """Runs that differ in their seed only: one series."""

    name: str
    curves: tuple[Curve, ...]
    about: Mapping[str, Any]


def grouped(runs: Sequence[Run]) -> list[RunGroup]:
    """Runs by all settings but seed, device and what may change in a run that goes on."""
    by: dict[str, list[Run]] = {}
    for run in runs:
        by.setdefault(json.dumps(same_settings(run.about), sort_keys=True) + _own(run), []).append(
            run
        )
    names = _names([members[0] for members in by.values()])
    return [
        RunGroup(name, tuple(c for run in members for c in run.curves), members[0].about)
        for name, members in zip(names, by.values(), strict=True)
    ]


def _own(run: Run) -> str:
    """Runs without written settings are each by themselves."""
    return "" if run.about else str(run.path)


def same_settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those in which runs of one series may differ."""
    free = {"seed", "steps", "save_every"}
    kept = {k: v for k, v in about.items() if k not in ("device", "recipe")}
    for table in ("train", "config"):
        if isinstance(kept.get(table), Mapping):
            kept[table] = {k: v for k, v in kept[table].items() if k not in free}
    return kept


def _names(firsts: Sequence[Run]) -> list[str]:
    """The recipe where it tells them apart, else the folder."""
    recipes = [str(run.about.get("recipe", "")) for run in firsts]
    if all(recipes) and len(set(recipes)) == len(recipes):
        return recipes
    names = [run.name for run in firsts]
    return names if len(set(names)) == len(names) else [str(run.path) for run in firsts]
