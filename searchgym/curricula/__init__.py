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

from .axes import AXES as AXES
from .axes import Axis as Axis
from .axes import DifficultyVector as DifficultyVector
from .axes import TaskPool as TaskPool
from .axes import blur as blur
from .axes import checked_difficulty as checked_difficulty
from .axes import difficulty_of as difficulty_of
from .axes import number_table as number_table
from .base import CURRICULA as CURRICULA
from .base import Curriculum as Curriculum
from .base import Driver as Driver
from .base import Lent as Lent
from .base import Uniform as Uniform
from .base import is_told as is_told
from .base import make_curriculum as make_curriculum
from .base import next_task as next_task

if TYPE_CHECKING:
    from .choices import DifficultyPool as DifficultyPool
    from .choices import MaskSearch as MaskSearch
    from .choices import SelfPaced as SelfPaced
    from .choices import Staged as Staged
    from .choices import SuccessBand as SuccessBand
    from .drivers import AfterSuccess as AfterSuccess
    from .drivers import AxisBandit as AxisBandit
    from .drivers import LevelBand as LevelBand
    from .drivers import PerTask as PerTask
    from .drivers import ScalingInter as ScalingInter
    from .drivers import Scheduled as Scheduled
    from .drivers import ZeroSearchNoise as ZeroSearchNoise

_LAZY = {path.partition(":")[2]: path.partition(":")[0] for path in CURRICULA.shipped.values()}
"""Classes that are imported when they are first asked for: an environment needs few of them."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
