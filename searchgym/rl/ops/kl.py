"""Estimates of KL(policy || reference) from the policy's own samples, and how hard to press it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Estimator = Literal["k1", "k2", "k3", "k3+", "abs"]


def kl(logp: Tensor, ref_logp: Tensor, how: Estimator = "k3") -> Tensor:
    """KL estimates per token, same shape as both (Schulman 2020, "Approximating KL Divergence").

    With d = logp - ref_logp: ``k1`` = d, unbiased, for rewards; ``k2`` = d²/2, whose *gradient* is
    that of the KL, for losses; ``k3`` = exp(-d) + d - 1, unbiased and never negative, with |d|
    clamped to 20 and the value to 10; ``k3+`` has k3's value and k2's gradient; ``abs`` = |d|.
    k3's own gradient is not that of the KL.
    """
    if logp.shape != ref_logp.shape:
        raise ValueError(
            f"expected equal shapes, got logp {tuple(logp.shape)}, ref_logp {tuple(ref_logp.shape)}"
        )
    d = logp - ref_logp
    if how == "k1":
        return d
    if how == "abs":
        return d.abs()
    k2 = d.square() / 2
    if how == "k2":
        return k2
    d = d.clamp(-20, 20)
    k3 = ((-d).exp() + d - 1).clamp(-10, 10)
    if how == "k3":
        return k3
    if how == "k3+":
        return k3.detach() + k2 - k2.detach()
    raise ValueError(f"unknown KL estimator {how!r}; known: k1, k2, k3, k3+, abs")


def adapted_kl_coefficient(
    coefficient: float, measured: float, samples: int, *, target: float = 0.1, horizon: int = 10_000
) -> float:
    """The coefficient after ``samples`` more samples whose mean KL was ``measured``.

    Grows while the KL is above ``target``, shrinks while it is below, by at most 20 % per
    ``horizon`` samples (Ziegler et al., arXiv 1909.08593).
    """
    if target <= 0 or horizon <= 0:
        raise ValueError(f"expected target > 0 and horizon > 0, got {target} and {horizon}")
    error = min(max(measured / target - 1, -0.2), 0.2)
    return coefficient * (1 + error * samples / horizon)
