"""AdaSearch: the decision whether to search, by the first search or stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from searchgym.rl import Coef, Group, Rewards, RewardTransform, Signals, TaskPlan, Workers
from searchgym.seeding import derive

from .asides import Aside, ask, members
from .saas import HalfClosed, closed_book

DECIDER = "decider"


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


def known(group: Group, share: float) -> bool:
    """Check whether at least a share of the members that may not search are right."""
    right = [m.episode.parts["em"] for m in group.members if closed_book(m) and m.episode.parts]
    return bool(right) and float(np.mean(right)) >= share


class Decided(HalfClosed):
    """Chains, ``closed`` of which may not search, and ``decisions`` of the role ``"decider"``: is
    the question answered without a search? The right decision is yes where at least a ``share`` of
    the closed members are right (AdaSearch, arXiv 2512.16883: the decision is stated, with its
    reason, and trained apart from solving; the threshold and the wording are ours). A decision
    earns 1 if it is right.

    Args:
        size: Episodes of a group, without the decisions.
        closed: Number of them without search.
        decisions: Number of decisions.
        share: See above.
    """

    registered = "rollout:decided"
    roles = frozenset({DECIDER})

    def __init__(
        self, size: int = 8, closed: int = 4, decisions: int = 4, share: float = 0.5
    ) -> None:
        super().__init__(size, closed)
        if decisions < 1 or not 0 < share <= 1:
            raise ValueError(
                f"decisions is at least 1 and share in (0, 1], got {decisions} and {share}"
            )
        self.decisions, self.share = decisions, float(share)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = super().collect(plans, workers)
        asides = [self._aside(g, i) for g in groups for i in range(self.decisions)]
        said = ask(DECIDER, asides, workers)
        made = []
        for n, group in enumerate(groups):
            own = said[n * self.decisions : (n + 1) * self.decisions]
            more = members(DECIDER, own, [""] * len(own), [-1] * len(own), workers)
            made.append(replace(group, members=(*group.members, *more)))
        return made

    def _aside(self, group: Group, number: int) -> Aside:
        plan = group.plan
        return Aside(
            f"{plan.name}.{DECIDER}{number}",
            derive(plan.key, DECIDER, number),
            f"{plan.task.question}\nIs this answered without a search? Say why, and then answer "
            "yes or no.",
            "yes" if known(group, self.share) else "no",
        )
