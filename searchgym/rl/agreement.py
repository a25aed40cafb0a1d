"""Checks that the rollout engine's weights match the trainer's, by comparing log-probabilities.

A generator with weights of its own (vLLM, another process) may hold stale ones, or compute an
architecture otherwise than the trainer does; training on its tokens would be silently biased.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import EngineError
from .slots.batch import Batch, in_lines

EXACT = 1e-4
"""Tolerance in float32, in nats: kernels differ by less."""
ROUNDED = 0.5
"""Tolerance in half precision, in nats: single unlikely tokens differ by this much."""


def tolerance(dtype: torch.dtype, generator: Any = None) -> float:
    """Largest difference that rounding explains, in nats: by the coarser precision of the trainer's
    ``dtype`` and the generator's. A generator of unknown precision, as a worker's in another
    process, counts as the trainer's."""
    model = getattr(generator, "model", None)
    theirs = getattr(generator, "dtype", getattr(model, "dtype", dtype))
    exact = (torch.float32, torch.float64)
    return EXACT if dtype in exact and theirs in exact else ROUNDED


def require_agreement(
    batch: Batch, version: int, generator: Any, model: Any, limit: float
) -> dict[str, float]:
    """Compare log-probabilities of the batch's tokens that weights of ``version`` drew: those of
    ``generator``, which drew them, with ``batch.old_logp``, the trainer's.

    Returns:
        ``sampling_logp_difference/mean`` and ``/max``, in nats; empty if all tokens are older.

    Raises:
        EngineError: a token differs by more than ``limit``.
    """
    width = batch.mask.shape[1]
    longest = max(map(len, batch.rows))
    versions = torch.from_numpy(
        np.stack([np.pad(r.version, (0, longest - len(r)), constant_values=-1) for r in batch.rows])
    )
    drawn = in_lines(versions + 1, batch.members, width) == version + 1  # 0: no token there
    drawn &= ~batch.expert[:, None]  # drawn after another prompt, or by others
    gap = (batch.need("old_logp") - batch.sampled_logp).abs()[drawn]
    if not len(gap):
        return {}
    mean, largest = float(gap.mean()), float(gap.max())
    if not largest <= limit:
        raise EngineError(
            f"{type(generator).__name__} and the trainer disagree on {type(model).__name__} by up "
            f"to {largest:.2g} nats per token (mean {mean:.2g}, {len(gap)} "
            f"tokens; allowed {limit:g}): it does not compute this architecture alike, does not "
            "divide logits by the model's temperature, or did not take over the weights. Generate "
            "with a TransformersGenerator, or, if this is rounding, allow it: "
            "TrainConfig(agreement=…)"
        )
    return {"sampling_logp_difference/mean": mean, "sampling_logp_difference/max": largest}
