"""Does what plays hold the weights that are trained? Checked on the very tokens it drew.

A generator with a copy of its own (vLLM, another process) may hold stale weights, or compute an
architecture otherwise than the trainer does; training on its tokens would be biased without a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import EngineError
from .slots.batch import Batch, in_lines

EXACT = 1e-4
"""Nats, in float32: what kernels differ by."""
ROUNDED = 0.5
"""Nats, in half precision, where single unlikely tokens differ much."""


def limit_of(dtype: torch.dtype, player: Any = None) -> float:
    """The largest difference that is rounding, for a trainer of this precision and the generator
    ``player``: the coarser of the two counts. One whose precision is not known here, as that of a
    worker in another process, counts as the trainer's."""
    model = getattr(player, "model", None)
    theirs = getattr(player, "dtype", getattr(model, "dtype", dtype))
    exact = (torch.float32, torch.float64)
    return EXACT if dtype in exact and theirs in exact else ROUNDED


def require_agreement(
    batch: Batch, version: int, player: Any, model: Any, limit: float
) -> dict[str, float]:
    """Compare log-probabilities of the batch's tokens that weights of ``version`` drew: those of
    ``player``, who drew them, with ``batch.old_logp``, the trainer's.

    Returns:
        ``gap/max`` and ``gap/mean``, in nats; nothing if all tokens are older.

    Raises:
        EngineError: a token differs by more than ``limit``.
    """
    width = batch.mask.shape[1]
    longest = max(map(len, batch.rows))
    versions = torch.from_numpy(
        np.stack([np.pad(r.version, (0, longest - len(r)), constant_values=-1) for r in batch.rows])
    )
    drawn = in_lines(versions + 1, batch.members, width) == version + 1  # 0: no token there
    gap = (batch.need("old_logp") - batch.sampled_logp).abs()[drawn]
    if not len(gap):
        return {}
    found = {"gap/max": float(gap.max()), "gap/mean": float(gap.mean())}
    if not found["gap/max"] <= limit:
        raise EngineError(
            f"{type(player).__name__} and the trainer disagree on {type(model).__name__} by up "
            f"to {found['gap/max']:.2g} nats per token (mean {found['gap/mean']:.2g}, {len(gap)} "
            f"tokens; allowed {limit:g}): it does not compute this architecture alike, does not "
            "divide logits by the model's temperature, or did not take over the weights. Generate "
            "with a TransformersGenerator, or, if this is rounding, allow it: "
            "TrainConfig(agreement=…)"
        )
    return found
