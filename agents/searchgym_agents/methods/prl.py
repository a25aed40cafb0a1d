"""PRL (arXiv 2601.10201): the KL to the reference as a reward of each turn."""

from __future__ import annotations

from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, Reduction
from searchgym.rl.ops import RewardGroups, masked, on_turns, spread, turn_returns


class PRL(AdvantageEstimator):
    """(R - mean of the group) + what a turn and those after it pay for leaving the reference,
    r_k = -β Σ_{t ∈ k} (log π_old - log π_ref).

    Maximising R - β KL pays every turn its own share of the KL; a trajectory's rewards sum to
    R - β Σ k1. The paper derives rewards of steps from this objective; their exact form was not
    found, so this one is ours.

    Args:
        beta: Price of the KL, or ``coef["beta"]``.
    """

    registered = "advantage:prl"
    requires = frozenset({"ref_logp", "old_logp"})
    reads = frozenset({"beta"})
    invariant = frozenset({"shift"})
    reductions = (Reduction({"beta": 0.0}, {"use": "dr_grpo"}),)

    def __init__(self, beta: float = 0.01) -> None:
        self.beta = float(beta)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        old, ref = (masked(batch.need(name), mask) for name in ("old_logp", "ref_logp"))
        paid = -coef.get("beta", self.beta) * (old - ref)
        places, later = turn_returns(paid, batch.turn, mask)
        groups = RewardGroups(batch.reward, batch.group)
        apart = groups.advantage(groups.reward - groups.mean[groups.index])
        return Estimate(spread(apart, mask) + on_turns(later, places, batch.turn, mask))
