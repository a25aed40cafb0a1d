"""Names, import paths and options to objects: what a recipe's tables mean.

Nothing is listed here. A class is registered by standing in its slot's package with a line
``registered = "name"``, or by a plug-in (:mod:`searchgym.plugins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...errors import CardError, unknown
from ...objects import from_spec
from ...plugins import Registry

SlotName = Literal["rollout", "signal", "reward", "advantage", "loss", "data", "schedule"]
PLACES: Mapping[SlotName, str] = {
    "rollout": "searchgym.rl.rollouts",
    "signal": "searchgym.rl.signals",
    "reward": "searchgym.rl.rewards",
    "advantage": "searchgym.rl.advantages",
    "loss": "searchgym.rl.losses",
    "data": "searchgym.rl.data",
    "schedule": "searchgym.rl.schedules",
}
"""The package that holds the classes of a slot that are not one published method's own."""
METHODS: Mapping[SlotName, str] = {
    "rollout": "collect",
    "signal": "measure",
    "reward": "apply",
    "advantage": "estimate",
    "loss": "__call__",
    "data": "plan",
    "schedule": "coef",
}
"""The method by which an object of each slot is called."""


REGISTRY: Mapping[SlotName, Registry] = {
    slot: Registry("outcome" if slot == "reward" else slot, package=package)
    for slot, package in PLACES.items()
}
"""Slot → name → import path, read from the packages when a slot is first asked for."""


def make(slot: SlotName, spec: Any) -> Any:
    """An object from a name, an import path, a table or itself.

    Args:
        slot: One of ``REGISTRY``.
        spec: ``"grpo"``, ``"package.module:Class"``, ``{"use": either, **options}``, or an object,
            which is returned.

    Raises:
        CardError: an unknown name or option, or an object that does not fit the slot.
    """
    if slot not in REGISTRY:
        raise CardError(unknown("slot", slot, REGISTRY))
    method = METHODS[slot]
    if isinstance(spec, type):
        raise CardError(f"the slot {slot!r} holds an object, not a class: write {spec.__name__}(…)")
    spec = from_spec(slot, spec, REGISTRY[slot], accepts=(method, "state_dict", "load_state_dict"))
    lacking = [n for n in (method, "requires", "provides", "state_dict", "load_state_dict")
               if not hasattr(spec, n)]  # fmt: skip
    if lacking:
        raise CardError(
            f"{type(spec).__name__} cannot fill the slot {slot!r}: it has no "
            f"{', '.join(lacking)} (see searchgym.rl.slots.protocols; the base class Slot has all "
            "but the first)"
        )
    return spec
