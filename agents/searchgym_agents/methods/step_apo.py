"""Step-APO (arXiv 2409.08642): pairs of steps from one state, with a margin by their values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from searchgym.rl import Batch, Coef, Mean, Output, Result, Totals, WeightedLoss
from searchgym.rl.ops import alike, log_ratio, segments, values


def step_pairs(batch: Batch) -> list[tuple[tuple[int, int], tuple[int, int], float]]:
    """Pairs ((line, turn) of the better step, that of the worse one, difference of their values).

    Steps are the first turns of segments that begin in one state; a step is worth the mean reward
    of the leaves below it. Equal ones make no pair.
    """
    spans = segments(batch.group, batch.number, batch.parent, batch.since)
    worth = [v.end for v in values(spans, batch.reward.double().tolist(), "leaves")]
    ahead: dict[tuple[int, int], list[int]] = {}
    for k, segment in enumerate(spans):
        if not math.isnan(worth[k]):
            ahead.setdefault(segment.state, []).append(k)
    return [
        ((spans[a].line, spans[a].first), (spans[b].line, spans[b].first), worth[a] - worth[b])
        for same in ahead.values()
        for a in same
        for b in same
        if worth[a] > worth[b] and not alike(worth[b], worth[a])
    ]


class StepAPOLoss(WeightedLoss):
    """-log σ(β (Δ_better - Δ_worse) - ``margin`` · (V_better - V_worse)), mean over the update's
    pairs of steps that begin in one state; Δ = the sum of log π - log π_ref over the step's tokens.
    Without margin this is DPO of steps. A group is never split.

    Args:
        margin: Factor on the difference of values (paper: of advantages, from a value model).
    """

    registered = "loss:step_apo"
    name = "step_apo"
    whole_groups = True
    requires = frozenset({"ref_logp"})

    def __init__(self, beta: float = 0.1, margin: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(weight)
        if not 0 < beta < math.inf or margin < 0:
            raise ValueError(f"beta is positive, margin not negative; got {beta}, {margin}")
        self.beta, self.margin = float(beta), float(margin)

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """The number of pairs in the whole update, at each trajectory."""
        return {"step_apo_pairs": torch.full((len(batch),), float(len(step_pairs(batch))))}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        pairs = step_pairs(batch)
        total = max(float(batch.note("step_apo_pairs").max()), 1.0)
        ratio = log_ratio(output.logp, batch.need("ref_logp"), batch.mask)
        if not pairs:
            return 0.0 * ratio.sum(), {}

        def delta(steps: list[tuple[int, int]]) -> Tensor:
            line = torch.tensor([at[0] for at in steps])
            turn = torch.tensor([at[1] for at in steps])
            return torch.where(batch.turn[line] == turn[:, None], ratio[line], 0.0).sum(1)

        apart = self.beta * (delta([p[0] for p in pairs]) - delta([p[1] for p in pairs]))
        margin = apart - self.margin * torch.tensor([p[2] for p in pairs])
        right = float((apart.detach() > 0).sum())
        stats = {
            "accuracy": Mean(right, len(pairs)),
            "margin": Mean(float(apart.detach().sum()), len(pairs)),
        }
        return -logsigmoid(margin).sum() / total, stats
