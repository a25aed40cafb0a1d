"""Rewards for single turns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Rewards, Signals, wider


class PerTurn(Slot):
    """Pays ``weight`` (or ``coef["w_<signal>"]``) times a signal of turns, each turn its own.

    Args:
        signal: (M, K), e.g. ``turn_return``: then leave out the reward ``weighted``, which would
            pay the return a second time.
    """

    registered = "per_turn"
    provides = frozenset({"turn_reward"})

    def __init__(self, signal: str = "turn_return", weight: float = 1.0) -> None:
        self.signal, self.weight = signal, float(weight)
        self.requires = frozenset({signal})

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        weight = coef.get(f"w_{self.signal}", self.weight)
        return Rewards(rewards.outcome, added(rewards.turns, weight * signals[self.signal]))


class InformationGain(Slot):
    """Pays a turn what the gold answer's probability gained by it: ``p_{k+1} - p_k`` with
    ``p = exp(gold_logp)``; the last turn is paid by the outcome alone (IGPO, arXiv 2510.14967).

    The sum over a trajectory is what it knew in the end minus what it knew at first.

    Args:
        logs: Pay the gain in log-probability instead (one reading of A²TGPO, arXiv 2605.06200).
        signal: ``gold_logp``, or another (M, K) of log-probabilities before turns.
    """

    registered = "information_gain"
    reads = frozenset({"information_gain"})
    provides = frozenset({"turn_reward"})

    def __init__(self, weight: float = 1.0, logs: bool = False, signal: str = "gold_logp") -> None:
        self.weight, self.logs, self.signal = float(weight), logs, signal
        self.requires = frozenset({signal})

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        known = signals[self.signal] if self.logs else np.exp(signals[self.signal])
        gain = coef.get("information_gain", self.weight) * np.diff(known, axis=1)
        return Rewards(rewards.outcome, added(rewards.turns, gain))


def added(turns: Floats | None, more: Floats) -> Floats:
    """The sum of two (M, K) rewards of turns, of which either may be wider; NaN where both are."""
    if turns is None:
        return more
    width = max(turns.shape[1], more.shape[1])
    both = np.stack([wider(turns, width), wider(more, width)])
    return np.where(np.isnan(both).all(0), np.nan, np.nansum(both, 0))
