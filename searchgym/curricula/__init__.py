"""Curricula: the choice of the next tasks and the difficulty while an agent learns.

A curriculum drives the *environment*, so every trainer can have one: it says where on each axis of
difficulty (:data:`AXES`) the next episode is, and which task it plays. It acts at each episode's
start, also inside vector environments, where autoreset passes no options. Give an environment one
by ``gym.make(…, curriculum=…)`` or around it (``sg.CurriculumWrapper``), our
trainers by a recipe's ``data = {use = "curriculum", curriculum = …}``. It is written as a name, a
table ``{"use": name, …}``, an import path, or an object (:func:`make_curriculum`):

    {"use": "zerosearch", "end": 0.5, "total": 200}
    {"use": "staged", "max_hops": [1, 2, 4], "threshold": 0.7, "max_episodes": 5000}
    {"use": "scheduled", "params": {"top_k": {"kind": "linear", "start": 10, "end": 3,
     "total": 100}}, "tasks": {"use": "pool"}}

Axes are driven by ``scheduled`` (linear, exponential, in steps), ``zerosearch``, ``scaling_inter``,
``after_success``, ``staged``, ``band``, ``bandit`` and, by what the task is, ``per_task``; tasks
are chosen by ``uniform``, ``staged``, ``masksearch``, ``self_paced``, ``success_band`` and
``pool``. Those of the first kind take one of the second as ``tasks``, but for ``staged``, which
does both.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .axes import (
    AXES,
    Axis,
    DifficultyVector,
    TaskPool,
    blur,
    checked_difficulty,
    difficulty_of,
    number_table,
)
from .base import CURRICULA, Curriculum, Driver, Lent, Uniform, is_told, make_curriculum, next_task

if TYPE_CHECKING:
    from .per_task import PerTask as PerTask
    from .scheduled import AfterSuccess as AfterSuccess
    from .scheduled import ScalingInter as ScalingInter
    from .scheduled import Scheduled as Scheduled
    from .scheduled import ZeroSearchNoise as ZeroSearchNoise
    from .stages import MaskSearch as MaskSearch
    from .stages import Staged as Staged
    from .weighted import DifficultyPool as DifficultyPool
    from .weighted import SelfPaced as SelfPaced
    from .weighted import SuccessBand as SuccessBand
    from .windows import AxisBandit as AxisBandit
    from .windows import LevelBand as LevelBand

_LAZY = {path.partition(":")[2]: path.partition(":")[0] for path in CURRICULA.shipped.values()}
"""Classes that are imported when they are first asked for: an environment needs few of them."""

__all__ = [
    "AXES",
    "CURRICULA",
    "AfterSuccess",
    "Axis",
    "AxisBandit",
    "Curriculum",
    "DifficultyPool",
    "DifficultyVector",
    "Driver",
    "Lent",
    "LevelBand",
    "MaskSearch",
    "PerTask",
    "ScalingInter",
    "Scheduled",
    "SelfPaced",
    "Staged",
    "SuccessBand",
    "TaskPool",
    "Uniform",
    "ZeroSearchNoise",
    "blur",
    "checked_difficulty",
    "difficulty_of",
    "is_told",
    "make_curriculum",
    "next_task",
    "number_table",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
