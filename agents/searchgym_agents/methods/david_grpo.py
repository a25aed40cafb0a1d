"""David-GRPO's rollout: chains that found evidence and failed go on anew from there."""

from __future__ import annotations

from searchgym import Episode
from searchgym.rl import SecondTries, TurnTree, returns


def last_fruitful(episode: Episode) -> int:
    """Number of turns up to the last one that showed a gold passage for the first time; 0 where
    none did."""
    shown = [t.number for t in episode.turns if t.reward_parts.get("evidence", 0.0) > 0]
    return 1 + max(shown) if shown else 0


class NearMiss(SecondTries):
    """Half of ``size`` chains; each that failed after it had found a gold passage is cut after the
    turn that found the last one, and goes on anew. Both are members (David-GRPO, Han et al., arXiv
    2601.21699: truncated near misses are resampled; the rule of the cut is ours).

    Args:
        size: Members of a group, at most; an even number.
        solved: Return from which a chain has not failed.
    """

    registered = "rollout:near_miss"

    def __init__(self, size: int = 8, solved: float = 1.0) -> None:
        super().__init__(size)
        self.solved = float(solved)

    def again(self, tree: TurnTree) -> None:
        for place, earned in returns(tree).items():
            episode = tree.branches[place].episode
            at = last_fruitful(episode)
            if earned < self.solved and 0 < at < len(episode.turns):
                tree.fork(place, at)
