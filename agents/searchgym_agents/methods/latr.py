"""LATR's rollout: branches where two tokens were nearly as likely, if they come to differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from searchgym import CardError, TrainableLM
from searchgym.policies.rows import TrainingRow
from searchgym.rl import Branching, GrowingBranch, TurnTree, Workers

from .turn_heads import turns_in


def near_tie(first: float, second: float, least: float = 0.25, apart: float = 0.15) -> bool:
    """Check whether the two largest probabilities of a token's distribution leave open which one
    comes: the second above ``least``, and less than ``apart`` below the first."""
    return second > least and first - second < apart


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """Insertions, deletions and replacements that make one sequence the other, at least."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


class NearTies(Branching):
    """A share of the group's ``size`` leaves is a tree, the others are chains. The tree begins as
    one chain; a turn with a near tie (:func:`near_tie`) among its tokens is written once more, and
    dropped again if its tokens are less than ``differs`` of the longer one's length apart in edit
    distance from those it replaces. What is left of ``size`` in the end are further chains (LATR,
    Lookahead Tree-Based Rollouts, arXiv 2510.24302).

    The paper goes on with the second token itself and looks 20 to 50 tokens ahead; here the whole
    turn is drawn anew, so that it is the policy's own, and is what is looked at (ours). The tokens
    of what was dropped are in no metric.

    Args:
        size: Leaves of a group: exactly so many.
        share: Share of leaves that are the tree's, or ``coef["near_ties"]``; 0: independent chains.
        least, apart: Of a near tie (paper: .25 and .15).
        differs: Paper: .4.
    """

    registered = "rollout:near_ties"
    reads = frozenset({"near_ties"})

    def __init__(
        self, size: int = 8, share: float = 1.0, least: float = 0.25, apart: float = 0.15,
        differs: float = 0.4,
    ) -> None:  # fmt: skip
        super().__init__(size)
        if not 0 <= share <= 1 or not 0 <= differs <= 1:
            raise ValueError(f"share and differs are in [0, 1], got {share} and {differs}")
        self.share, self.differs = float(share), float(differs)
        self.least, self.apart = float(least), float(apart)

    def leaves(self, workers: Workers) -> int:
        """Number of leaves that are the tree's."""
        return round(workers.coef.get("near_ties", self.share) * self.size)

    def plant(self, tree: TurnTree) -> None:
        require_current(tree.workers)
        for _ in range(1 + min(self.size - self.leaves(tree.workers), self.size - 1)):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        places = tree.moved()
        again = [i for i in places if self._alike(tree, tree.branches[i])]
        new = [tree.branches[i] for i in places if i not in again]
        tree.drop(again)
        room = self.leaves(tree.workers) - sum(b.root == 0 for b in tree.branches)
        for branch in self._open(tree, [b for b in new if b.root == 0])[: max(room, 0)]:
            place = next(i for i, b in enumerate(tree.branches) if b is branch)
            tree.fork(place, branch.turns - 1)
        if not tree.going:
            while len(tree.branches) < self.size:
                tree.chain()

    def _open(self, tree: TurnTree, branches: Sequence[GrowingBranch]) -> list[GrowingBranch]:
        """Choose the branches whose last turn had a near tie; a turn that is itself a second try is
        not tried again."""
        tied = []
        for branch in branches:
            last = branch.turns - 1
            if not branch.broken and (last > branch.since or branch.parent is None):
                rows = tree.workers.policy.rows(branch.episode, since=last)
                likely = two_likeliest(rows, tree.workers.lm)
                if any(near_tie(a, b, self.least, self.apart) for a, b in likely):
                    tied.append(branch)
        return tied

    def _alike(self, tree: TurnTree, branch: GrowingBranch) -> bool:
        """Check whether a branch has just written a turn much like the one that it replaces."""
        if branch.parent is None or branch.turns != branch.since + 1:
            return False
        both = (branch, tree.branches[branch.parent])
        memory, turn = tree.workers.policy.memory, branch.since
        mine, theirs = (
            memory.written(b.episode.config.episode_id)[turn].completion.ids for b in both
        )
        assert mine is not None  # a policy that trains keeps ids
        assert theirs is not None
        return edit_distance(mine, theirs) < self.differs * max(len(mine), len(theirs), 1)


def two_likeliest(rows: Sequence[TrainingRow], lm: TrainableLM) -> list[tuple[float, float]]:
    """The two largest probabilities at each sampled token of the rows' last turn."""
    if not rows:
        return []
    with torch.no_grad():
        top = lm.score(rows[-1:], measures=["top_logp"]).measures["top_logp"][0].cpu().float().exp()
    turns = [mine for _, mine in turns_in(rows[-1])]
    if not turns:
        return []
    pairs = top[torch.from_numpy(np.flatnonzero(turns[-1])), :2].tolist()
    return [(float(a), float(b)) for a, b in pairs]


def require_current(workers: Workers) -> None:
    """``CardError`` where a worker process's model is not the one that its policy plays with, whose
    weights alone are kept up to date."""
    policy = workers.policy
    own = getattr(policy.generator, "model", None)
    if policy.refresh is not None and own is not workers.lm.model:
        raise CardError(
            "near_ties reads probabilities of the workers' model, which here is not the one that "
            "plays, and grows old: let the workers' policy be lm.policy(…), or leave rollouts out"
        )
