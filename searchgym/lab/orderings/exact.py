"""Measurements on enumerated trees: every trajectory of a question, with its probability."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from searchgym_agents.methods.slate import step_score

from ..gradients import Bench
from ..measure import quality
from ..methods import table_of
from ..policy import TabularLM, odds, skilled, true_gradient
from ..tree import SHAPES, TreeShape, grow

SUCCESS = 0.4
"""Rate of exact match of the policies, unless said."""


@cache
def skilled_at(
    seed: int, shapes: tuple[TreeShape, ...] = SHAPES, success: float = SUCCESS
) -> TabularLM:
    """A policy over a tree, both drawn by the seed."""
    return skilled(grow(shapes, seed), success, seed)


def step_variance(seed: int, *, turns: int) -> dict[str, float]:
    """Variance of what a turn is credited with, if candidates for it are drawn from one prefix and
    scored alone (``siblings``), and if whole chains are drawn and their scores added up
    (``chains``); scores are SLATE's (:func:`~searchgym_agents.methods.slate.step_score`).

    The policy is one that answers at its last turn: the trajectories of ``turns`` turns, with their
    probabilities among themselves. ``siblings`` is the mean over turns, each over its prefixes;
    ``apart`` the sum of the variances of each turn's score, which is ``chains`` where scores do not
    depend on each other.
    """
    lm = skilled_at(seed, (TreeShape(turns - 1, 2, 2, turns),))
    leaves, (chance,) = lm.tree.leaves[0], odds(lm)
    whole = [i for i, leaf in enumerate(leaves) if len(leaf.episode.turns) == turns]
    weight = chance[whole] / chance[whole].sum()
    scores = np.array([[step_score(leaves[i].episode, k) for k in range(turns)] for i in whole])
    paths = [lm.tree.paths[0][i] for i in whole]
    total = scores.sum(1)
    chains = float(weight @ (total - weight @ total) ** 2)
    apart = float((weight @ (scores - weight @ scores) ** 2).sum())
    siblings = 0.0
    for k in range(turns):
        alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for place, path in enumerate(paths):
            alike.setdefault(tuple(path[:k]), []).append(place)
        for places in alike.values():
            part, values = weight[places], scores[places, k]
            mean = part @ values / part.sum()
            siblings += float(part @ (values - mean) ** 2)
    return {"siblings": siblings / turns, "chains": chains, "apart": apart}


def gradient(
    seed: int,
    *,
    method: str,
    size: int,
    steps: int,
    success: float = SUCCESS,
    changes: Mapping[str, Any] | None = None,
) -> Mapping[str, float]:
    """A method's gradient, held to the true one: ``cosine`` of the expected gradient, mean
    ``step_cosine``, ``bias`` and ``variance`` (:class:`searchgym.lab.measure.Quality`).

    Args:
        changes: Slots of the recipe that are another here.
    """
    lm = skilled_at(seed, success=success)
    bench = Bench({**table_of(method, size), **(changes or {})}, lm, size)
    measured = quality(
        bench, true_gradient(lm), method, success, steps=steps, few=steps, seed=seed,
        enumerate_groups=False,
    )  # fmt: skip
    return {
        name: getattr(measured, name).mean for name in ("cosine", "step_cosine", "bias", "variance")
    }
