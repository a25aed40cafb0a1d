"""What changes while an agent learns: which tasks come next, and how hard the environment is.

A curriculum drives the *environment*, so every trainer can have one: it says where on each axis of
difficulty (:data:`AXES`) the next episode is, and which task it plays. It acts at each episode's
start, also inside vector environments, where autoreset passes no options. Give an environment one
by ``gym.make(…, curriculum=…)`` or around it (``searchgym.wrappers.CurriculumWrapper``), our
trainers by a recipe's ``data = {use = "curriculum", curriculum = …}``. It is written as a name, a
table ``{"use": name, …}``, an import path, or an object (:func:`make_curriculum`):

    {"use": "zerosearch", "end": 0.5, "total": 200}
    {"use": "staged", "max_hops": [1, 2, 4], "threshold": 0.7, "max_episodes": 5000}
    {"use": "scheduled", "params": {"top_k": {"kind": "linear", "start": 10, "end": 3,
     "total": 100}}, "tasks": {"use": "pool"}}

Axes are driven by ``scheduled`` (linear, exponential, in steps), ``zerosearch``, ``scaling_inter``,
``after_success``, ``staged``, ``band`` and ``bandit``; tasks are chosen by ``uniform``, ``staged``,
``masksearch``, ``self_paced``, ``success_band`` and ``pool``. Those of the first kind take one of
the second as ``tasks``, but for ``staged``, which does both.
"""

from .axes import AXES, Axis, DifficultyVector, checked_difficulty, difficulty_of
from .band import LevelBand
from .bandit import AxisBandit
from .base import Curriculum, Driver, Uniform
from .gated import AfterSuccess
from .masksearch import MaskSearch
from .paced import SelfPaced, SuccessBand
from .pool import DifficultyPool
from .registry import CURRICULA, make_curriculum
from .scaling_inter import ScalingInter
from .scheduled import Scheduled
from .staged import Staged
from .taskpool import TaskPool, blur
from .zerosearch import ZeroSearchNoise

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
    "LevelBand",
    "MaskSearch",
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
    "make_curriculum",
]
