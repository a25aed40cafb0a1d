"""Tree-GRPO's rollout: chains first, then branches from turns of theirs drawn at random."""

from __future__ import annotations

from ...seeding import stream
from .branching import Branching, TurnTree


class Expand(Branching):
    """``trees`` chains, then in ``rounds`` rounds branches from states drawn at random, until there
    are ``size`` leaves (Tree-GRPO, Ji et al., arXiv 2509.21240: M trees, N nodes of each a round, L
    rounds, M (L N + 1) leaves).

    A state is a completed turn after which something follows. A tree that has none, since its
    chain answered at once, gets another chain from the question.

    Args:
        size: Leaves of a group; a multiple of ``trees``.
    """

    registered = "expand"

    def __init__(self, size: int = 8, trees: int = 2, rounds: int = 1) -> None:
        super().__init__(size)
        if trees < 1 or size % trees or not 1 <= rounds < max(size // trees, 2):
            raise ValueError(
                "size must be a multiple of trees, and rounds between 1 and the branches of a "
                f"tree, size / trees - 1; got size {size}, trees {trees}, rounds {rounds}"
            )
        self.trees, self.rounds = trees, rounds

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.trees):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        if tree.going or tree.rounds == self.rounds:
            return
        more = self.size // self.trees - 1
        count = more * (tree.rounds + 1) // self.rounds - more * tree.rounds // self.rounds
        tree.rounds += 1
        for root in range(self.trees):
            own = [i for i, b in enumerate(tree.branches) if b.root == root]
            states = [
                (i, at)
                for i in own
                for at in range(tree.branches[i].since + 1, tree.branches[i].turns)
                if not tree.branches[i].broken
            ] or [(own[0], 0)]
            draw = stream(tree.plan.key, "expand", tree.rounds, root)
            for n in draw.choice(len(states), size=count, replace=len(states) < count):
                tree.fork(*states[int(n)])
