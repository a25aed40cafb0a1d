"""SPO's rollout: every branch that is still going splits at the same turns."""

from __future__ import annotations

from .branching import Branching, TurnTree


class Levels(Branching):
    """``roots`` chains, each of which becomes ``width`` after ``every`` turns, and again, until
    there are ``size`` leaves (SPO's tree, Guo et al., arXiv 2505.23564: 6 of 6 of 6). What has
    ended before does not split, so that there may be fewer.

    Args:
        size: Leaves of a group: ``roots`` times a power of ``width``.
        every: Turns between two splits (the paper: 100 tokens).
    """

    registered = "levels"

    def __init__(self, size: int = 8, roots: int = 2, width: int = 2, every: int = 1) -> None:
        super().__init__(size)
        if roots < 1 or width < 2 or every < 1:
            raise ValueError(
                f"roots and every are at least 1, width at least 2, got {roots}, {every}, {width}"
            )
        self.roots, self.width, self.every, self.splits = roots, width, every, 0
        while roots * width ** (self.splits + 1) <= size:
            self.splits += 1
        if roots * width**self.splits != size:
            raise ValueError(
                f"size must be roots times a power of width, {roots} · {width}ⁿ; got {size}"
            )

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.roots):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        for place in tree.moved():
            branch = tree.branches[place]
            split, rest = divmod(branch.turns, self.every)
            if branch.going and not rest and split <= self.splits:
                for _ in range(self.width - 1):
                    tree.fork(place, branch.turns)
