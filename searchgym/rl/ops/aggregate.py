"""Aggregates a loss per token into one number; methods differ in what the sum is divided by."""

from __future__ import annotations

from typing import Literal, TypedDict, get_args

from torch import Tensor

from .mask import masked

Aggregate = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]


class Counts(TypedDict, total=False):
    """Counts that every loss passes to :func:`aggregate_tokens`, which documents them."""

    norm: float | None
    tokens: float | None
    sequences: float | None


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
    * ``seq-mean-token-sum-norm``: sum over all tokens / ``norm``, a constant, default T (Dr.GRPO;
      for a mean over sequences give sequences × the longest length allowed)

    Sequences without any unmasked token do not count. ``tokens`` and ``sequences`` replace the
    batch's own counts: give the global ones when a batch is split, then the parts' losses add up to
    the whole's.

    Raises:
        ValueError: shapes differ, an unknown ``how``, or a divisor that is not positive.
    """
    for name, count in (("norm", norm), ("tokens", tokens), ("sequences", sequences)):
        if count is not None and not count > 0:
            raise ValueError(f"{name} divides a loss and must be positive, got {count}")
    values = masked(values, mask)
    mask = mask.to(values.dtype)
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
    raise ValueError(f"unknown aggregation {how!r}; known: {', '.join(get_args(Aggregate))}")
