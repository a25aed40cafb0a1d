"""SS-GRPO: planning, looking up and answering compared each with its like."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from searchgym import Episode
from searchgym.rl import AdvantageEstimator, Batch, Coef, Estimate, OfMembers, Played
from searchgym.rl.ops import Std, checked_std, masked, same, standardized


def stage_advantages(
    score: Tensor, there: Tensor, group: Tensor, weights: Tensor, *, std: Std = "sample",
    eps: float = 1e-6,
) -> Tensor:  # fmt: skip
    """(B, K) G_k = Σ_j λ_kj R_j, compared within stage k of each group; 0 for stages that are not
    there.

    Args:
        score: (B, K) R, what each stage earned. there: (B, K) bool.
        weights: (K, K) λ. With the unit matrix each stage is GRPO by itself; with ones in the last
            column alone, every stage gets GRPO's of the last.
    """
    later = torch.where(there, score, torch.zeros_like(score)) @ weights.T.to(score.dtype)
    stages = torch.arange(score.shape[1]).expand(score.shape)
    key = same(group[:, None].expand(score.shape).flatten(), stages.flatten())
    known = torch.where(there, later, torch.nan).flatten()
    return standardized(known, key, std=std, eps=eps).view(score.shape)


class SSGRPO(AdvantageEstimator):
    """Each token gets its stage's advantage: the stage's own reward and, by the weights λ, those of
    later stages, compared with the same stage of the group's other members.

    Stages are those of the signal ``stage``; what a stage earned is the sum of its turns' rewards,
    the outcome among the last turn's. The paper's stages are plan, research, review and answer,
    each scored by a judge, and it trains a reflection policy besides.

    Args:
        weights: (K, K) λ, 1 on its diagonal and 0 below; None: λ_kj = ``decay`` ^ (j - k).
        decay: See ``weights``; ours.
        stages: K where ``weights`` is None.
    """

    registered = "advantage:ss_grpo"
    requires = frozenset({"stage"})

    def __init__(
        self,
        weights: Sequence[Sequence[float]] | None = None,
        decay: float = 0.5,
        stages: int = 3,
        std: Std = "sample",
        eps: float = 1e-6,
    ) -> None:
        if weights is None:
            apart = torch.arange(stages)[None, :] - torch.arange(stages)[:, None]
            table = torch.where(apart >= 0, float(decay) ** apart.clamp_min(0).float(), 0.0)
        else:
            table = torch.tensor(weights, dtype=torch.float32)
        if table.ndim != 2 or table.shape[0] != table.shape[1]:
            raise ValueError(f"weights are a square table, one row a stage, got {weights}")
        if bool(table.tril(-1).any()):
            raise ValueError("a stage cannot be paid for earlier ones: 0 below the diagonal")
        self.weights = table
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        number = len(self.weights)
        stage = torch.nan_to_num(batch.by_turn("stage")).long().clamp(0, number - 1)
        paid = masked(batch.token_reward(), mask)
        score = paid.new_zeros(len(batch), number).scatter_add(1, stage, paid)
        there = score.new_zeros(score.shape).scatter_add(1, stage, mask.to(paid.dtype)) > 0
        adv = stage_advantages(
            score, there, batch.group, self.weights, std=self.std, eps=self.eps
        )  # fmt: skip
        return Estimate(masked(adv.gather(1, stage), mask))


class TurnStage(OfMembers):
    """``stage``: (M, K) 0 for an episode's first turn, which plans, 2 for the last, which should
    answer, 1 for those between, which look things up. An answer at once is stage 2 alone.

    RubricEM (arXiv 2605.10899) reads four stages off headings in the text; these three, which every
    search agent has, are ours. A last turn without an answer is stage 2, too: were it compared with
    its like alone, which earn nothing either, it would cost nothing, and what wrong answers lose in
    probability would go there.
    """

    registered = "signal:stage"
    by_turn = frozenset({"stage"})
    provides = frozenset({"stage"})

    def of(self, member: Played) -> list[float]:
        return stages(member.episode)


def stages(episode: Episode) -> list[float]:
    """The stage of each turn."""
    last = len(episode.turns) - 1
    return [2.0 if k == last else float(min(k, 1)) for k in range(last + 1)]
