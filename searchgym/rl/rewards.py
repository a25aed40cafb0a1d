"""Reward transforms: from signals to rewards."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from .ops.tokens import require_rows
from .slots.protocols import Coef, RewardTransform, RunFacts
from .slots.records import Floats, Group, Rewards, Signals, wider


class Weighted(RewardTransform):
    """Adds ``Σ weight · signal`` to the reward. ``coef["w_<signal>"]`` replaces a weight.

    Args:
        weights: Signal → weight. Default: the environment's return.
    """

    registered = "weighted"

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = {k: float(v) for k, v in (weights or {"return": 1.0}).items()}
        self.requires = frozenset(self.weights)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        outcome = np.array(rewards.outcome)
        for name, weight in self.weights.items():
            outcome = outcome + coef.get(f"w_{name}", weight) * signals[name]
        return Rewards(outcome, rewards.turns)


class PerTurn(RewardTransform):
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

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        weight = coef.get(f"w_{self.signal}", self.weight)
        return Rewards(rewards.outcome, added(rewards.turns, weight * signals[self.signal]))


class InformationGain(RewardTransform):
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

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
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


_EXACT = 2**53
"""Limit below which doubles count tokens exactly."""


def overlong_penalty(
    length: Tensor, *, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0
) -> Tensor:
    """(B,) 0 up to ``longest - buffer``, then linear to ``-penalty`` at ``longest`` and beyond.

    Source: DAPO (arXiv 2503.14476), soft overlong punishment. ``length`` (B,) is in tokens.
    """
    require_rows(length=length)
    if not 0 < buffer <= longest < _EXACT:
        raise ValueError(
            f"expected 0 < buffer <= longest < 2**53, got buffer={buffer}, longest={longest}"
        )
    over = (length.to(torch.get_default_dtype()) - (longest - buffer)) / buffer
    return -penalty * over.clamp(0, 1)


class Overlong(RewardTransform):
    """Adds :func:`overlong_penalty` of the signal ``length``; arguments are its own."""

    registered = "overlong"
    requires = frozenset({"length"})

    def __init__(self, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0) -> None:
        overlong_penalty(torch.zeros(1), longest=longest, buffer=buffer)  # wrong values fail now
        self.longest, self.buffer, self.penalty = longest, buffer, penalty

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """The penalty, where no episode can be as long as its buffer."""
        start = self.longest - self.buffer
        if run.most_tokens is None or run.most_tokens > start:
            return {}
        reason = (
            f"an episode samples at most {run.most_tokens} tokens (turns x tokens a turn), the "
            f"penalty begins above {start}"
        )
        return {"longest": reason}

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        less = overlong_penalty(
            torch.from_numpy(signals["length"]),
            longest=self.longest,
            buffer=self.buffer,
            penalty=self.penalty,
        )
        return Rewards(rewards.outcome + less.double().numpy(), rewards.turns)
