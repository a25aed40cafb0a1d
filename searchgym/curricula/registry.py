"""Curricula by name: what ``curriculum = {use = "staged", …}`` of a card means."""

from __future__ import annotations

from typing import Any

from ..cards import from_spec
from ..errors import CardError
from .base import Curriculum, Uniform

_HERE = "searchgym.curricula."
CURRICULA: dict[str, str] = {
    "uniform": _HERE + "base:Uniform",
    "scheduled": _HERE + "scheduled:Scheduled",
    "zerosearch": _HERE + "zerosearch:ZeroSearchNoise",
    "scaling_inter": _HERE + "scaling_inter:ScalingInter",
    "after_success": _HERE + "gated:AfterSuccess",
    "staged": _HERE + "staged:Staged",
    "masksearch": _HERE + "masksearch:MaskSearch",
    "band": _HERE + "band:LevelBand",
    "bandit": _HERE + "bandit:AxisBandit",
    "self_paced": _HERE + "paced:SelfPaced",
    "success_band": _HERE + "paced:SuccessBand",
    "pool": _HERE + "pool:DifficultyPool",
}
"""Name → import path. Others are named by their own path, or entered here."""
_METHODS = ("choose", "params", "observe", "state_dict", "load_state_dict")


def make_curriculum(spec: Any) -> Curriculum:
    """A curriculum from None (uniform), a name, an import path, ``{"use": either, **options}``, or
    an object, which is returned.

    Raises:
        CardError: an unknown name or option, or an object that lacks a method.
    """
    if spec is None:
        return Uniform()
    spec = from_spec("curriculum", spec, CURRICULA, accepts=_METHODS)
    lacking = [name for name in _METHODS if not hasattr(spec, name)]
    if lacking:
        raise CardError(
            f"{type(spec).__name__} is no curriculum: it has no {', '.join(lacking)} (see "
            "searchgym.curricula.Curriculum)"
        )
    made: Curriculum = spec
    return made
