"""Signal: how likely the policy would be right if it had to answer before each of its turns."""

from __future__ import annotations

import numpy as np

from ..slots.records import Floats
from .gold import GoldLogp


class GoldChance(GoldLogp):
    """``gold_chance``: (M, K) the probability that an answer forced in place of each turn is the
    gold one (a task's first), word for word: the expected exact match of stopping there (MRT, arXiv
    2503.07572, whose code samples such answers). NaN as in ``gold_logp``.
    """

    registered = "gold_chance"
    by_turn = frozenset({"gold_chance"})
    provides = frozenset({"gold_chance"})

    def value(self, logp: Floats, counts: Floats) -> Floats:
        chances: Floats = np.exp(logp)
        return chances
