"""Rewards of episodes: what is measured, by named parts, and how the parts become one number.

``reward=`` of an environment takes a part's name (``"f1"``), ``"package.module:object"``, a table
``{"use": either, **options}``, a function or an object, a list of these, or a table of weights
``{"f1": 1, "search": -0.02, "my_package:brevity": 0.1}``; see :class:`Reward`. A plain function of
an :class:`Outcome` is a reward::

    def brevity(outcome):
        return 1.0 if len(outcome.answer.split()) <= 5 else 0.0
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
