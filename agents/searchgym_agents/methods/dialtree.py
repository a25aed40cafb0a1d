"""DialTree's rollout: every branch splits at every turn, and what went wrong is not played on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from searchgym import Episode, Search, ToolResult
from searchgym.errors import check_known
from searchgym.rl import Branching, TurnTree
from searchgym.seeding import stream
from searchgym.types import Invalid


def invalid(episode: Episode) -> bool:
    """Check whether the last turn was no valid action."""
    return isinstance(episode.turns[-1].action, Invalid)


def stale(episode: Episode) -> bool:
    """Check whether the last turn searched and was shown no passage that it had not been shown
    before."""
    shown = [
        {h.passage.id for r in turn.results if isinstance(r, ToolResult) for h in r.hits}
        for turn in episode.turns
    ]
    searched = isinstance(episode.turns[-1].action, Search)
    return searched and not shown[-1] - set().union(*shown[:-1])


CHECKS: Mapping[str, Callable[[Episode], bool]] = {"invalid": invalid, "stale": stale}
"""Reasons for which a turn may be pruned."""


class Pruned(Branching):
    """``roots`` chains; after each turn every branch that is still going becomes ``width``, in an
    order drawn at random, as long as the group has fewer than ``size`` that are not pruned. A
    branch is pruned, and not played on, where its turn was no valid action or searched in vain
    (DialTree-RPO, Guo et al., arXiv 2510.02286, which prunes malformed and off-topic turns). What
    it would have taken is free for others; a group may end with fewer than ``size``.

    A pruned branch stays a member, for others may have left it, and has earned what its turns were
    paid: it is a failure. The paper discards it; so does ``{ use = "branches", whole = true }``,
    which leaves it out of comparisons and trains on none of what it alone holds.

    Args:
        size: Leaves of a group that are not pruned, at most.
        prune: Names in ``CHECKS``.
    """

    registered = "rollout:pruned"
    truncates = True

    def __init__(
        self, size: int = 8, roots: int = 4, width: int = 2,
        prune: Sequence[str] = ("invalid", "stale"),
    ) -> None:  # fmt: skip
        super().__init__(size)
        if not 1 <= roots <= size or width < 2:
            raise ValueError(
                f"roots is between 1 and size = {size}, width at least 2; got {roots}, {width}"
            )
        check_known("check", CHECKS, *prune, error=ValueError)
        self.roots, self.width = roots, width
        self.checks = [CHECKS[name] for name in prune]

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.roots):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        moved = [place for place in tree.moved() if tree.branches[place].going]
        for branch in (tree.branches[place] for place in moved):
            branch.stopped = any(check(branch.episode) for check in self.checks)
        tree.rounds += 1
        for n in stream(tree.plan.key, "split", tree.rounds).permutation(len(moved)):
            branch = tree.branches[moved[n]]
            kept = sum(not b.stopped for b in tree.branches)
            if not branch.stopped:
                for _ in range(min(self.width - 1, self.size - kept)):
                    tree.fork(moved[n], branch.turns)
