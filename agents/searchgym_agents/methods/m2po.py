"""M2PO: stale tokens that moved outward most do not learn; no clip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import ON_POLICY, Batch, Coef, Output, WeightedLoss, check_positive
from searchgym.rl.ops import log_ratio, masked, masked_mean, spread, token_ratio


def m2po_keep(
    logp: Tensor, sampled_logp: Tensor, adv: Tensor, mask: Tensor, *, tau: float = 0.04
) -> Tensor:
    """(B, T) bool, Algorithm 1: the unmasked tokens that may learn.

    Only tokens that an update would push further away from where they were drawn can be left out,
    those with A > 0 and r > 1 or A < 0 and r < 1, where r is the ratio of the *current* policy to
    the one that sampled. Of these the largest ``(log r)²`` go, until the mean of those left is at
    most ``tau``.

    Args:
        logp, sampled_logp, mask: (B, T), of all tokens of an update.
        adv: (B,) or (B, T).
    """
    wide = spread(adv, mask)
    moved = log_ratio(logp, sampled_logp, mask).detach()
    outward = ((wide > 0) & (moved > 0)) | ((wide < 0) & (moved < 0))
    return second_moment_keep(logp, sampled_logp, mask, outward, tau=tau)


class M2POLoss(WeightedLoss):
    """Policy gradient with the ratio to the weights that *sampled*, and without the tokens that
    :func:`m2po_keep` leaves out: ``-M · r · A`` per token, r = π / π_sampled, without a clip. They
    are chosen at each update, among its whole mini-batch, which takes one more forward pass. What
    the sum is divided by counts all tokens. Statistics: the mean ratio and the share left out.

    Args:
        tau: Mean of the squared log-ratios of the tokens that moved outward and are left.
    """

    registered = "loss:m2po"
    requires = frozenset({"sampled_logp"})
    prepares_with_logp = True
    reductions = tuple(r._replace(options={"tau": 1e9}) for r in ON_POLICY)

    def __init__(self, tau: float = 0.04, **shared: Any) -> None:
        super().__init__(**shared)
        check_positive(tau=tau)
        self.tau = float(tau)

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """The tokens that are kept, among the whole update."""
        assert output is not None  # prepares_with_logp
        with torch.no_grad():
            keep = m2po_keep(output.logp, batch.sampled_logp, batch.adv, batch.mask, tau=self.tau)
        return {"m2po_keep": keep}

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask = batch.mask
        ratio = token_ratio(logp, batch.sampled_logp, mask)
        chosen = (batch.note("m2po_keep") & mask).to(ratio.dtype)
        return -chosen * ratio * spread(batch.adv, mask), {
            "ratio": masked_mean(ratio.detach(), mask),
            "clipped": masked_mean(1 - chosen, mask),
        }


def second_moment_keep(
    logp: Tensor, sampled_logp: Tensor, mask: Tensor, among: Tensor, *, tau: float
) -> Tensor:
    """(B, T) bool, the unmasked tokens that are kept.

    Of the tokens of ``among``, those with the largest ``(log π - log π_sampled)²`` are left out, by
    rank, until the mean over those of ``among`` that are left is at most ``tau``. All others are
    kept. Of equal ones at the limit all go.

    Args:
        logp, sampled_logp, mask: (B, T).
        among: (B, T) bool, tokens that may be left out.
        tau: Positive.
    """
    if tau <= 0:
        raise ValueError(f"tau must be positive, got {tau}")
    inside = mask > 0
    eligible = inside & among
    moved = log_ratio(logp, sampled_logp, mask).detach() ** 2
    ranked = moved[eligible].double().sort().values
    counts = torch.arange(1, len(ranked) + 1, device=ranked.device)
    within = (ranked.cumsum(0) / counts) <= tau  # true, then false: means of a sorted list grow
    kept = int(within.sum())
    if kept == len(ranked):
        return inside
    return inside & ~(eligible & (masked(moved, mask).double() >= ranked[kept]))
