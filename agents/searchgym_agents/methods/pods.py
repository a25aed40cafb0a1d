"""Down-sampling of groups: play many members, train on the few whose rewards differ most (PODS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from searchgym.rl import Scored, UniformTasks


def most_varied(rewards: NDArray[np.float64], size: int) -> list[int]:
    """Places of the ``size`` rewards with the largest variance, in order.

    They are the i largest and the ``size`` - i smallest for some i (arXiv 2504.13818), so that
    ``size`` + 1 subsets are compared. Of equal rewards the first are taken, of equal subsets the
    one with the fewest large ones; no more are given than there are.
    """
    order = [int(i) for i in np.argsort(rewards, kind="stable")]
    if len(order) <= size:
        return sorted(order)
    ranked = np.asarray(rewards, float)[order]
    fewest = [np.concatenate([ranked[: size - i], ranked[len(ranked) - i :]]) for i in range(size)]
    large = int(np.argmax([np.round(subset.var(), 12) for subset in fewest]))
    high = sorted(order, key=lambda i: (-rewards[i], i))[:large]
    return sorted(order[: size - large] + high)


class MostVaried(UniformTasks):
    """Uniform tasks; of each group the ``size`` members whose rewards vary most are trained on.

    Playing is cheap beside updating, and a group-relative advantage is largest at both ends. A
    group whose rewards are all equal has no advantages and is left out; nothing is played instead.

    Raises:
        ValueError: fewer than two members.
    """

    registered = "data:most_varied"

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        if size < 2:
            raise ValueError(f"size must be at least 2, for one member has no peers; got {size}")
        self.size = size

    def admit(self, scored: Scored) -> Scored | None:
        places = scored.training
        rewards = scored.rewards.total[places]
        if len(places) < 2 or np.ptp(rewards) < 1e-12:
            return None
        return scored.only([places[i] for i in most_varied(rewards, self.size)])
