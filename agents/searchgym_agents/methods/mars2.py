"""MARS²: groups are search trees; a member is rewarded above its parent and siblings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from searchgym.rl import (
    Branching,
    Coef,
    Group,
    Rewards,
    RewardTransform,
    Signals,
    TurnTree,
    returns,
)
from searchgym.seeding import stream


class Thompson(Branching):
    """One leaf after another. Beginning at the question, each draws a chance of success for a new
    child of where it stands and for every child that is there, and follows the largest; where that
    is the new one, it is written (adaptive branching by Thompson sampling, AB-MCTS, arXiv
    2503.04412, of which MARS², arXiv 2604.14564, trains on the nodes).

    A child of the question is a chain; one of a member leaves that one after a turn drawn at
    random. Chances are drawn from Beta(1 + Σ r, 1 + Σ (1 - r)): for a new child of the returns r of
    the children, for a child of all that stems from it. Returns are taken as chances, within [0, 1]
    (priors and turns are ours).

    Args:
        size: Members of a group (paper: 8).
        first: Chains to begin with, at once.
    """

    registered = "rollout:thompson"

    def __init__(self, size: int = 8, first: int = 2) -> None:
        super().__init__(size)
        if not 1 <= first <= size:
            raise ValueError(f"first is between 1 and size = {size}, got {first}")
        self.first = first

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.first):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        if tree.going or len(tree.branches) == self.size:
            return
        draw = stream(tree.plan.key, "thompson", len(tree.branches))
        earned = {i: min(max(r, 0.0), 1.0) for i, r in returns(tree).items()}
        children: dict[int | None, list[int]] = {}
        for place, branch in enumerate(tree.branches):
            children.setdefault(branch.parent, []).append(place)

        def under(place: int) -> list[int]:
            return [place, *(i for child in children.get(place, ()) for i in under(child))]

        def chance(places: list[int]) -> float:
            known = np.array([earned[i] for i in places if i in earned])
            return float(draw.beta(1 + known.sum(), 1 + (1 - known).sum()))

        here: int | None = None
        while True:
            there = [i for i in children.get(here, ()) if _turns(tree, i)]
            odds = [chance(children.get(here, [])), *(chance(under(i)) for i in there)]
            best = int(np.argmax(odds))
            if not best:
                break
            here = there[best - 1]
        if here is None:
            tree.chain()
        else:
            tree.fork(here, int(draw.choice(_turns(tree, here))))


def _turns(tree: TurnTree, place: int) -> range:
    """Turns of a member's own after which another can leave it."""
    branch = tree.branches[place]
    return range(0) if branch.broken else range(branch.since + 1, branch.turns)


class KinReward(RewardTransform):
    """r + ``weight`` · (r - b), b = (1 - ``siblings``) · the parent's r + ``siblings`` · the mean r
    of the other siblings; of the two only what there is, and b = r without either (MARS², arXiv
    2604.14564). Siblings left the same parent after the same turn; chains are siblings.

    All r are those before: the released code overwrites them as it goes.

    Args:
        weight: γ (released code: .5), or ``coef["kin"]``.
        siblings: λ (released code: .5).
    """

    registered = "outcome:kin"
    reads = frozenset({"kin"})

    def __init__(self, weight: float = 0.5, siblings: float = 0.5) -> None:
        if not 0 <= siblings <= 1:
            raise ValueError(f"siblings is in [0, 1], got {siblings}")
        self.weight, self.siblings = float(weight), float(siblings)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        reward = rewards.outcome
        weight = coef.get("kin", self.weight)
        places = {group.place(i): i for i in range(len(group.members))}
        state = [self._state(group, places, i) for i in range(len(group.members))]
        outcome = np.array(reward)
        for i, (above, since) in enumerate(state):
            parent = np.nan if above is None or above not in places else reward[places[above]]
            same = [j for j, s in enumerate(state) if s == (above, since) and j != i]
            others = reward[same][~np.isnan(reward[same])]
            mean = float(others.mean()) if len(others) else np.nan
            both = (1 - self.siblings) * parent + self.siblings * mean
            floor = next((b for b in (both, parent, mean) if not np.isnan(b)), reward[i])
            outcome[i] = reward[i] + weight * (reward[i] - floor)
        return Rewards(outcome, rewards.turns)

    @staticmethod
    def _state(group: Group, places: Mapping[int, int], member: int) -> tuple[int | None, int]:
        """(Place of the parent, turn after which it was left)."""
        played = group.members[member]
        above, since = played.parent, played.since
        while above is not None and above in places:  # who left where its parent began is no child
            parent = group.members[places[above]]
            if since > parent.since:
                break
            above, since = parent.parent, parent.since
        return above, since
