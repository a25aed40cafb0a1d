"""Rewards of episodes: what is measured, by named parts, and how the parts become one number.

``reward=`` of an environment takes a part's name (``"f1"``), ``"package.module:object"``, a table
``{"use": either, **options}``, a function or an object, a list of these, or a table of weights
``{"f1": 1, "search": -0.02, "my_package:brevity": 0.1}``; see :class:`Reward`. A plain function of
an :class:`Outcome` is a reward::

    def brevity(outcome):
        return 1.0 if len(outcome.answer.split()) <= 5 else 0.0
"""

from .outcome import MEASURES, Outcome
from .part import RewardPart, gate, per_turn
from .registry import REWARDS
from .reward import Reward

__all__ = ["MEASURES", "REWARDS", "Outcome", "Reward", "RewardPart", "gate", "per_turn"]
