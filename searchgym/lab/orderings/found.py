"""Distinct evidence that trees and chains find at equal calls of the engine."""

from __future__ import annotations

from collections.abc import Iterable

from ...rl.recipe import Recipe
from ...rl.rollouts.chains import Chains
from ...rl.slots.records import Played, Workers
from ...seeding import derive
from ..methods import table_of
from ..policy import skilled
from ..tree import TreeShape, grow

SHAPES = (TreeShape(2, 3, 2, 4), TreeShape(3, 3, 2, 4), TreeShape(2, 2, 3, 4))
"""Questions with room for searches that bring nothing."""
SUCCESS = 0.4


def evidence(seed: int, *, method: str, size: int, groups: int) -> dict[str, float]:
    """Distinct sets of pages, one set an episode, that a group has found: by the tree of a recipe's
    rollout (``tree``), and by chains of as many calls (``chains``): independent episodes, one after
    the other until the next one would take a call too many. A turn that branches share is
    called once.

    ``leaves`` and ``chains_played`` are their episodes; all numbers are means over groups.
    """
    tree = grow(SHAPES, seed)
    lm = skilled(tree, SUCCESS, seed)
    recipe = Recipe.of(table_of(method, size))
    sums = dict.fromkeys(("tree", "chains", "leaves", "chains_played", "calls"), 0.0)
    for number in range(groups):
        key = derive(seed, "evidence", number)
        plan = tree.plan(number % tree.questions)._replace(name=f"g{number}", key=key)
        workers = Workers(lm.policy(derive(key, "tree")), tree.env, lm)  # type: ignore[arg-type]
        (grown,) = recipe.rollout.collect([plan], workers)
        calls = sum(own_calls(member) for member in grown.members)
        workers = Workers(lm.policy(derive(key, "chains")), tree.env, lm)  # type: ignore[arg-type]
        (straight,) = Chains(4 * size).collect([plan], workers)
        within, left = [], calls
        for member in straight.members:
            left -= own_calls(member)
            if left < 0:
                break
            within.append(member)
        sums["tree"] += distinct(grown.members)
        sums["chains"] += distinct(within)
        sums["leaves"] += len(grown.members)
        sums["chains_played"] += len(within)
        sums["calls"] += calls
    return {name: value / groups for name, value in sums.items()}


def own_calls(member: Played) -> int:
    """Calls of the engine in a member's own turns, its parent's left out."""
    return sum(len(turn.calls) for turn in member.episode.turns[member.since :])


def distinct(members: Iterable[Played]) -> int:
    """Number of different sets of pages that members have been shown."""
    return len({frozenset(member.episode.seen) for member in members})
