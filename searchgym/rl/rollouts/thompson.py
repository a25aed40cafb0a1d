"""MARS²'s rollout: a tree that grows leaf by leaf, wider or deeper as rewards so far suggest."""

from __future__ import annotations

import numpy as np

from ...seeding import stream
from .branching import Branching, TurnTree, returns


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

    registered = "thompson"

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
