"""A critic that classifies: the value is the mean of a histogram (HL-Gauss, arXiv 2403.03950)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from searchgym import EngineError, TrainableLM
from searchgym.rl import Batch, ValueModel
from searchgym.rl.ops import aggregate_tokens, masked, masked_mean


def target_histogram(goal: Tensor, edges: Tensor, sigma: float) -> Tensor:
    """(…, m) probabilities of the bins: the normal distribution around each goal, (…), with
    standard deviation ``sigma``, between the first and the last of the (m + 1,) ``edges``.

    p_i = (Φ((b_{i+1} - y) / σ) - Φ((b_i - y) / σ)) / (Φ((b_m - y) / σ) - Φ((b_0 - y) / σ)).
    Goals beyond the edges count as the nearest edge.
    """
    goal = goal.clamp(float(edges[0]), float(edges[-1]))
    below = torch.erf((edges - goal[..., None]) / (math.sqrt(2) * sigma))
    return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])


class HLGaussCritic(ValueModel):
    """A histogram over ``bins`` equal bins between ``low`` and ``high``, fitted by cross-entropy to
    the return smoothed by a Gaussian (Farebrother et al., Stop Regressing, arXiv 2403.03950); the
    value is the mean of the bins' centres. All bins are equally likely at first, so that values
    start at the middle, (``low`` + ``high``) / 2.

    Returns beyond the edges are learnt as the nearest edge, and ``critic/outside`` says how many
    there are. Leave a margin of some bins around the returns that can occur: near an edge the cut
    Gaussian's mean is not the return.

    Args:
        low, high: Edges of the histogram; rewards of search tasks are mostly in [0, 1] (ours).
        bins: Number of bins (the paper's 51).
        smoothing: Standard deviation of the Gaussian in bins (the paper's 0.75).
        options: Of :class:`~searchgym.rl.critics.ValueModel`.

    Raises:
        EngineError: fewer than two bins, edges in the wrong order, no smoothing.
    """

    registered = "critic:hl_gauss"

    def __init__(
        self, lm: TrainableLM, *, low: float = -0.5, high: float = 1.5, bins: int = 51,
        smoothing: float = 0.75, **options: Any,
    ) -> None:  # fmt: skip
        if bins < 2 or not low < high or not smoothing > 0:
            raise EngineError(
                "a histogram has at least 2 bins, low below high and smoothing above 0, got bins="
                f"{bins}, low={low:g}, high={high:g}, smoothing={smoothing:g}"
            )
        super().__init__(lm, size=bins, **options)
        self.edges = torch.linspace(low, high, bins + 1)
        self.centres = (self.edges[1:] + self.edges[:-1]) / 2
        self.sigma = smoothing * (high - low) / bins

    def read(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1) @ self.centres

    def loss(
        self, outputs: Tensor, batch: Batch, mask: Tensor, tokens: float
    ) -> tuple[Tensor, dict[str, float]]:
        returns = masked(batch.need("returns"), mask).detach()
        goal = target_histogram(returns, self.edges, self.sigma)
        loss = -(goal * outputs.log_softmax(-1)).sum(-1)
        outside = (returns < self.edges[0]) | (returns > self.edges[-1])
        stats = {
            "value": masked_mean(self.read(outputs), mask),
            "outside": masked_mean(outside.to(loss.dtype), mask),
        }
        return aggregate_tokens(loss, mask, "token-mean", tokens=tokens), stats
