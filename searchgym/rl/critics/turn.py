"""A critic with one value per turn."""

from __future__ import annotations

from torch import Tensor

from ..ops.turns import over_turn, turn_starts
from ..slots.batch import Batch
from .scalar import Critic


class TurnCritic(Critic):
    """The scalar head read once per turn, where the last results end and the turn begins: that
    value stands at all of the turn's tokens, and it alone is fitted.

    Credit then moves from turn to turn only: of GAE over tokens (``ppo``, γ 1) just the steps
    between turns are left, and with λ 1 advantages are those of GAE over turns.
    """

    registered = "turn"

    def values(self, batch: Batch) -> Tensor:
        at_starts = super().values(batch) * turn_starts(batch.turn, batch.mask)
        return over_turn(at_starts, batch.turn, batch.mask)

    def asked(self, batch: Batch) -> Tensor:
        return turn_starts(batch.turn, batch.mask) & super().asked(batch)  # where values are read
