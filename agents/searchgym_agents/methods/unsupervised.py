"""Rewards without a label: agreement with the group, and how sure the policy is of what it wrote.

Each is maximised by a policy that is sure of one answer, right or wrong, and that is how trainings
by them end: the group agrees, no two rewards differ any more, and exact match is what it was
(``tests/methods/test_unsupervised.py``; ``searchgym doctor`` names it ``entropy_collapse``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from searchgym.rl import (
    POLICY,
    Batch,
    Coef,
    Estimate,
    Group,
    Over,
    Rewards,
    RewardTransform,
    Signals,
)
from searchgym.rl.ops import masked
from searchgym.text import normalise_answer


class MajorityVote(RewardTransform):
    """Replaces outcomes by 1 for the group's commonest answer and 0 for others (TTRL, Zuo et al.,
    arXiv 2504.16084). Answers are compared as exact match compares them; of equally common ones the
    first given counts. No answer is no vote.
    """

    registered = "outcome:majority"

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        answers = [
            normalise_answer(m.episode.answer) if m.role == POLICY and not m.broken else ""
            for m in group.members
        ]
        votes = Counter(answer for answer in answers if answer)
        chosen = votes.most_common(1)[0][0] if votes else None
        agreed = np.array([float(answer == chosen) for answer in answers])
        return Rewards(np.where(np.isnan(rewards.outcome), np.nan, agreed), rewards.turns)


Kind = Literal["entropy", "self_certainty"]
MEASURE = {"entropy": "old_entropy", "self_certainty": "self_certainty"}


class Intrinsic(Over):
    """``base``, on how sure the policy was of a trajectory's tokens instead of its reward: minus
    their mean entropy (RENT, Prabhudesai et al., arXiv 2505.22660), or their mean KL from the
    uniform distribution to the policy's (Intuitor, Zhao et al., arXiv 2505.19590).
    """

    registered = "advantage:intrinsic"

    def __init__(self, base: Any = "grpo", of: Kind = "self_certainty") -> None:
        if of not in get_args(Kind):
            raise ValueError(f"of is 'entropy' or 'self_certainty', got {of!r}")
        super().__init__(base)
        self.of = of
        self.requires = self.requires | {MEASURE[of]}

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        value = masked(batch.need(MEASURE[self.of]), batch.mask).sum(1) / batch.length.clamp_min(1)
        value = -value if self.of == "entropy" else value
        sure = value.where(~batch.reward.isnan(), batch.reward)
        return self.base.estimate(replace(batch, reward=sure, outcome=sure, turn_reward=None), coef)
