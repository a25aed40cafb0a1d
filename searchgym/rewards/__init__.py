"""Rewards of episodes: what is measured, by named parts, and how the parts become one number.

``reward=`` of an environment takes a part's name (``"f1"``), ``"package.module:object"``, a table
``{"use": either, **options}``, a function or an object, a list of these, or a table of weights
``{"f1": 1, "search": -0.02, "my_package:brevity": 0.1}``; see :class:`Reward`. A plain function of
an :class:`Outcome` is a reward::

    def brevity(outcome):
        return 1.0 if len(outcome.answer.split()) <= 5 else 0.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "lookups": (
        "LookedUp", "SCORES", "lookups", "new_evidence", "pages", "queries",
        "stands_in_results", "token_f1", "useful", "well_formed",
    ),
    "outcome": ("MEASURES", "Outcome"),
    "part": ("Part", "RewardPart", "gate", "make_part", "per_turn"),
    "registry": ("REWARDS", "TURN"),
    "reward": ("Reward",),
    "search_r1": ("in_form", "structural"),
}  # fmt: skip
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .lookups import SCORES as SCORES
    from .lookups import LookedUp as LookedUp
    from .lookups import lookups as lookups
    from .lookups import new_evidence as new_evidence
    from .lookups import pages as pages
    from .lookups import queries as queries
    from .lookups import stands_in_results as stands_in_results
    from .lookups import token_f1 as token_f1
    from .lookups import useful as useful
    from .lookups import well_formed as well_formed
    from .outcome import MEASURES as MEASURES
    from .outcome import Outcome as Outcome
    from .part import Part as Part
    from .part import RewardPart as RewardPart
    from .part import gate as gate
    from .part import make_part as make_part
    from .part import per_turn as per_turn
    from .registry import REWARDS as REWARDS
    from .registry import TURN as TURN
    from .reward import Reward as Reward
    from .search_r1 import in_form as in_form
    from .search_r1 import structural as structural

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
