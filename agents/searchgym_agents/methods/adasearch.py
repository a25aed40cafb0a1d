"""AdaSearch's reward of the decision whether to search."""

from __future__ import annotations

import numpy as np

from searchgym.rl import Coef, Group, Rewards, RewardTransform, Signals

from .saas import closed_book


class AdaSearch(RewardTransform):
    """Pays ``weight`` to a member that searches exactly where the policy does not know the answer.

    The policy knows it if at least ``share`` of the group's closed members are right; these are
    paid for their answers alone. The form is ours, after the aim of AdaSearch (arXiv 2512.16883):
    the paper argues against paying tool calls, and lets the model state in a step of its own
    whether it will search, which is trained apart from solving; here the first search is the
    decision. Needs the rollout ``half_closed``.
    """

    registered = "outcome:ada_search"
    requires = frozenset({"em", "searches"})
    reads = frozenset({"ada_search"})

    def __init__(self, weight: float = 0.5, share: float = 0.5) -> None:
        self.weight, self.share = float(weight), float(share)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        closed = np.array([closed_book(member) for member in group.members])
        tried = signals["em"][closed & ~np.isnan(signals["em"])]
        known = bool(len(tried)) and bool(np.mean(tried == 1.0) >= self.share)
        decided = (np.nan_to_num(signals["searches"]) > 0) != known
        paid = coef.get("ada_search", self.weight) * (decided & ~closed)
        return Rewards(rewards.outcome + paid, rewards.turns)
