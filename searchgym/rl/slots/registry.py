"""Names of the registered objects of each slot, read from the files without running them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ...plugins import Registry

SlotName = Literal["rollout", "signal", "reward", "advantage", "loss", "data", "schedule"]
PLACES: Mapping[SlotName, str] = {
    "rollout": "rollouts", "signal": "signals", "reward": "rewards", "advantage": "advantages",
    "loss": "losses", "data": "data", "schedule": "schedules",
}  # fmt: skip
"""Module or package of ``searchgym.rl`` with a slot's classes that are not one method's own."""
REGISTRY: Mapping[SlotName, Registry] = {
    slot: Registry("outcome" if slot == "reward" else slot, package=f"searchgym.rl.{place}")
    for slot, place in PLACES.items()
}
"""Slot → name → import path, read when a slot is first asked for."""
