"""Policy losses and KL estimators on (B, T) tensors: rows are trajectories, columns tokens.

A language model's tokens or a candidate agent's one choice per turn: the same kernels. Whatever is
masked gets exactly zero gradient, even where its numbers are NaN or infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Aggregate = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]
_LOG_RATIO = 20.0


def aggregate_tokens(
    values: Tensor,
    mask: Tensor,
    how: Aggregate,
    *,
    norm: float | None = None,
    tokens: float | None = None,
    sequences: float | None = None,
) -> Tensor:
    """One number from (B, T) values under a (B, T) mask of 0 and 1.

    * ``token-mean``: sum over all tokens / number of tokens (DAPO)
    * ``seq-mean-token-mean``: mean over sequences of each one's mean (GRPO)
    * ``seq-mean-token-sum``: mean over sequences of each one's sum (REINFORCE)
    * ``seq-mean-token-sum-norm``: sum over all tokens / ``norm``, a constant, default T (Dr.GRPO)

    Sequences without any unmasked token do not count. ``tokens`` and ``sequences`` replace the
    batch's own counts: give the global ones when a batch is split, then the parts' losses add up to
    the whole's.
    """
    import torch

    mask = mask.to(values.dtype)
    values = torch.where(mask > 0, values, torch.zeros_like(values))
    length = mask.sum(1)
    alive = float((length > 0).sum()) if sequences is None else sequences
    alive = max(alive, 1.0)
    sums = values.sum(1)
    if how == "token-mean":
        total = float(length.sum()) if tokens is None else tokens
        return sums.sum() / max(total, 1.0)
    if how == "seq-mean-token-mean":
        return (sums / length.clamp_min(1)).sum() / alive
    if how == "seq-mean-token-sum":
        return sums.sum() / alive
    if how == "seq-mean-token-sum-norm":
        return sums.sum() / (values.shape[1] if norm is None else norm)
    raise ValueError(f"unknown aggregation {how!r}; known: {', '.join(Aggregate.__args__)}")


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    adv: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    aggregate: Aggregate = "token-mean",
    norm: float | None = None,
    tokens: float | None = None,
    sequences: float | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """The clipped surrogate (PPO), optionally with dual clip.

    Args:
        logp: (B, T) log-probabilities under the policy that is trained.
        old_logp: (B, T) the same under the policy that sampled; on-policy: ``logp.detach()``.
        adv: (B,) or (B, T) advantages.
        mask: (B, T) 1 where the policy acted.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high].
        dual_clip: for negative advantages the loss is at most ``-dual_clip * adv`` (> 1).

    Returns:
        (loss, stats): stats are the mean ratio, the fraction of clipped tokens and k3 to the old
        policy, all over unmasked tokens.
    """
    import torch

    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip must be greater than 1, got {dual_clip}")
    keep = mask > 0
    logp = torch.where(keep, logp, torch.zeros_like(logp))
    old = torch.where(keep, old_logp, torch.zeros_like(old_logp)).detach()
    adv = (adv[:, None] if adv.ndim == 1 else adv).detach()
    adv = torch.where(keep, adv.expand_as(logp), torch.zeros_like(logp))
    ratio = (logp - old).clamp(-_LOG_RATIO, _LOG_RATIO).exp()
    plain = -adv * ratio
    clipped = -adv * ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(plain, clipped)
    if dual_clip is not None:
        loss = torch.where(adv < 0, torch.minimum(loss, -dual_clip * adv), loss)
    count = keep.sum().clamp_min(1)
    with torch.no_grad():
        stats = {
            "ratio": float((ratio * keep).sum() / count),
            "clipped": float(((clipped > plain) & keep).sum() / count),
            "kl_old": float((kl(old, logp, "k3") * keep).sum() / count),
        }
    return (
        aggregate_tokens(loss, mask, aggregate, norm=norm, tokens=tokens, sequences=sequences),
        stats,
    )


def kl(logp: Tensor, ref_logp: Tensor, how: Literal["k1", "k2", "k3"] = "k3") -> Tensor:
    """Per-token estimates of KL(policy || reference) from the policy's samples (Schulman 2020).

    With d = logp - ref_logp: k1 = d; k2 = d²/2; k3 = exp(-d) + d - 1. k3 is never negative; as a
    *loss* its gradient is not that of the KL (use k2 for that).
    """
    d = (logp - ref_logp).clamp(-_LOG_RATIO, _LOG_RATIO)
    if how == "k1":
        return d
    if how == "k2":
        return d.square() / 2
    if how == "k3":
        return ((-d).exp() + d - 1).clamp(-10, 10)
    raise ValueError(f"unknown KL estimator {how!r}; known: k1, k2, k3")
