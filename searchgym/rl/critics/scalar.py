"""Critics of one number a token or a turn, fitted by PPO's clipped squared error."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from ...policies.trainable import TrainableLM
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean
from ..ops.turns import over_turn, turn_starts
from ..slots.batch import Batch
from .base import ValueModel


def value_loss(
    value: Tensor,
    returns: Tensor,
    old_value: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.5,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``½ max((V - R)², (clip(V, V_old ± clip) - R)²)``.

    Args:
        value: (B, T) with gradient. returns, old_value: (B, T), from when the data were sampled.
        mask: (B, T); for values of turns, the first tokens of turns (``turn_starts``).

    Returns:
        (loss, stats): the mean value and the fraction of tokens where the clip is active.
    """
    if clip <= 0:
        raise ValueError(f"clip must be positive, got {clip}")
    value = masked(value, mask)
    returns, old = masked(returns, mask).detach(), masked(old_value, mask).detach()
    near = torch.minimum(torch.maximum(value, old - clip), old + clip)
    plain, limited = (value - returns).square(), (near - returns).square()
    loss = torch.maximum(plain, limited) / 2
    stats = {
        "value": masked_mean(value, mask),
        "clipped": masked_mean((limited > plain).to(value.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class Critic(ValueModel):
    """A scalar head, which starts at 0; the default of every recipe with a critic.

    Args:
        clip: Distance from its old value beyond which a value has no gradient.
        options: Of :class:`~searchgym.rl.critics.base.ValueModel`.
    """

    registered = "scalar"

    def __init__(self, lm: TrainableLM, *, clip: float = 0.5, **options: Any) -> None:
        super().__init__(lm, **options)
        self.clip = clip

    def read(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]

    def loss(
        self, outputs: Tensor, batch: Batch, mask: Tensor, tokens: float
    ) -> tuple[Tensor, dict[str, float]]:
        return value_loss(
            self.read(outputs), batch.need("returns"), batch.need("value"), mask,
            clip=self.clip, tokens=tokens,
        )  # fmt: skip


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
