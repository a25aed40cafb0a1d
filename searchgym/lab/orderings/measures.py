"""Kinds of measurement by name: what an arm's ``measure`` may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import CardError, unknown
from ...objects import load_known
from .declared import Arm

MEASURES: Mapping[str, str] = {
    name: f"searchgym.lab.orderings.{where}:{name}"
    for name, where in {
        "step_variance": "exact", "gradient": "exact", "evidence": "found", "learn": "trained",
        "boundary": "boundary", "turns": "parallel", "misled": "misled",
    }.items()
}  # fmt: skip
"""Name → import path of a function of a seed and an arm's options, which returns figures."""


def measured(arm: Arm, seed: int) -> dict[str, Any]:
    """Figures of one seed of an arm.

    Raises:
        CardError: an unknown measure.
    """
    if arm.measure not in MEASURES:
        raise CardError(unknown("measure", arm.measure, MEASURES))
    made: dict[str, Any] = load_known(MEASURES[arm.measure])(seed, **arm.options)
    return made
