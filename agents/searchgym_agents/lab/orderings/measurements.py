"""Measurements without training: of enumerated trees, and of shipped agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from searchgym.envs.search import SearchEnv
from searchgym.evaluation.run import evaluate
from searchgym.rl.recipe import Recipe
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.records import Played, Workers
from searchgym.seeding import derive

from ...candidate.rules import BestSentenceAgent, RulesAgent
from ...methods.slate import step_score
from ..gradients import Bench
from ..methods import table_of
from ..policy import TabularLM, odds, skilled, true_gradient
from ..quality import quality
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
    ``step_cosine``, ``bias`` and ``variance`` (:class:`searchgym_agents.lab.quality.Quality`).

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


EVIDENCE_SHAPES = (TreeShape(2, 3, 2, 4), TreeShape(3, 3, 2, 4), TreeShape(2, 2, 3, 4))
"""Questions of :func:`evidence`, with room for searches that bring nothing."""


def evidence(seed: int, *, method: str, size: int, groups: int) -> dict[str, float]:
    """Distinct sets of pages, one set an episode, that a group has found: by the tree of a recipe's
    rollout (``tree``), and by chains of as many calls (``chains``): independent episodes, one after
    the other until the next one would take a call too many. A turn that branches share is
    called once.

    ``leaves`` and ``chains_played`` are their episodes; all numbers are means over groups.
    """
    tree = grow(EVIDENCE_SHAPES, seed)
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


AGENTS = {"best_sentence": BestSentenceAgent, "rules": RulesAgent}


def misled(seed: int, *, agent: str, rank: int, entities: int = 200) -> dict[str, Any]:
    """Mean exact match of an agent on the questions of MisinformationQA in a world of its own.

    Args:
        seed: Of the world.
        agent: ``"best_sentence"`` or ``"rules"``: neither learns nor doubts.
        rank: Place of the wrong page among four results of every search; 0: there is none.
    """
    wrong = {"contradict": 1.0, "rank": rank} if rank else {}
    env = SearchEnv(
        corpus="encyclopedia", world={"entities": entities, "seed": seed}, k=4, max_turns=8,
        engine={"name": "degraded", "engine": "bm25", **wrong},
        tasks={"simple": 100, "chain": 50, "at_most": True},
    )  # fmt: skip
    result = evaluate(AGENTS[agent](), env, seed=seed)
    return {"em": result.means["em"].mean, "questions": len(result.rows)}
