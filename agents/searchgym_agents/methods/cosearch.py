"""CoSearch: a ranker is trained beside the policy, on queries that resemble each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from searchgym import Episode, Failure, Hit, ToolCall, ToolResult, run_episodes
from searchgym.rewards import token_f1
from searchgym.rl import (
    Chains,
    Coef,
    Group,
    Played,
    Rewards,
    RewardTransform,
    Signals,
    TaskPlan,
    Workers,
    played,
)
from searchgym.scoring.evidence import ndcg_at
from searchgym.seeding import derive

from .asides import Aside, ask, failure_of, members, outcomes_served

RANKER = "ranker"
_NUMBER = re.compile(r"\d+")


class Ranked(Chains):
    """Chains in which the role ``"ranker"`` reads the passages that a query finds, the
    environment's ``k``, and names the ``keep`` best in order: the policy is shown these (CoSearch,
    arXiv 2604.17555). Several hits are ranked, one is shown as it is.

    If the policy itself is the ranker, each ranking is a member of the group. Those of similar
    queries are one sub-group and are compared with each other (``by_role``), for what was asked
    differs from episode to episode. An order that is malformed leaves the engine's; where the
    infrastructure fails the ranker, the search has failed.

    Args:
        size: Episodes of the policy.
        keep: Passages that are shown.
        similar: Token F1 from which two queries of a group are linked.
        chars: Characters of each passage that the ranker reads.
    """

    registered = "rollout:ranked"
    roles = frozenset({RANKER})

    def __init__(
        self, size: int = 8, keep: int = 3, similar: float = 0.7, chars: int = 400
    ) -> None:
        super().__init__(size)
        if keep < 1 or chars < 1 or not 0 < similar <= 1:
            raise ValueError(
                f"keep and chars are at least 1, similar is in (0, 1]; got {keep}, {chars}, "
                f"{similar}"
            )
        self.keep, self.similar, self.chars = keep, float(similar), chars

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = [self._start(plan, workers) for plan in plans]
        everyone = {e.config.episode_id: e for episodes in groups for e in episodes}
        tools: Any = _Ranking(self, workers, everyone)  # asked to run calls and nothing else
        run_episodes(everyone.values(), workers.policy, tools, batch=max(len(everyone), 1))
        return [
            Group(
                plan,
                (
                    *(played(e, workers.policy) for e in episodes),
                    *self._rankings(episodes, tools.done, workers),
                ),
            )
            for plan, episodes in zip(plans, groups, strict=True)
        ]

    def _rankings(
        self, episodes: Sequence[Episode], done: Mapping[str, list[Episode]], workers: Workers
    ) -> list[Played]:
        served = [
            (name, ranking)
            for name in (e.config.episode_id for e in episodes)
            for ranking in done.get(name, ())
        ]
        queries = [str(ranking.config.task.meta["query"]) for _, ranking in served]
        numbers = [-1 - c for c in clusters(queries, self.similar)]
        return members(RANKER, [r for _, r in served], [n for n, _ in served], numbers, workers)


class _Ranking:
    """An environment's tools, whose search results the ranker puts in order."""

    def __init__(self, rollout: Ranked, workers: Workers, episodes: Mapping[str, Episode]) -> None:
        self.rollout, self.workers, self.episodes = rollout, workers, episodes
        self.done: dict[str, list[Episode]] = {}
        """Episode → those of its rankings."""
        self._begun: dict[str, int] = {}
        """Episode → its rankings so far, also those that failed: names are not used twice."""

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult | Failure]:
        results = self.workers.env.toolbox.run(calls)
        where = [
            i for i, r in enumerate(results)
            if calls[i].tool == "search" and isinstance(r, ToolResult) and len(r.hits) > 1
        ]  # fmt: skip
        asides = []
        for i in where:
            name = calls[i].ctx.episode_id
            number = self._begun.get(name, 0)
            asides.append(self._aside(calls[i], results[i], number))  # type: ignore[arg-type]
            self._begun[name] = number + 1
        for i, episode in zip(where, ask(RANKER, asides, self.workers), strict=True):
            if (failure := failure_of(episode)) is not None:
                results[i] = failure  # nobody ranked what it found: the search has failed
                continue
            result = results[i]
            assert isinstance(result, ToolResult)
            self.done.setdefault(calls[i].ctx.episode_id, []).append(episode)
            results[i] = result._replace(hits=self._chosen(result.hits, episode))
        return results

    def _aside(self, call: ToolCall, result: ToolResult, number: int) -> Aside:
        task = self.episodes[call.ctx.episode_id].config.task
        rollout, gold = self.rollout, set(task.evidence)
        ids = [hit.passage.id for hit in result.hits]
        best = sorted(range(len(ids)), key=lambda i: ids[i] not in gold)[: rollout.keep]
        shown = "\n".join(
            f"[{i}] {hit.passage.title}: {hit.passage.text[: rollout.chars]}"
            for i, hit in enumerate(result.hits, 1)
        )
        query = str(call.args["query"])
        return Aside(
            f"{call.ctx.episode_id}.{RANKER}{number}",
            derive(call.ctx.key, RANKER),
            f"{task.question}\nQuery: {query}\n{shown}\nWhich passages help, best first? Answer "
            f"with up to {rollout.keep} of their numbers.",
            " ".join(str(i + 1) for i in best),
            tuple(i for i in ids if i in gold),
            {"query": query, "passages": ids, "keep": rollout.keep},
        )

    def _chosen(self, hits: Sequence[Hit], episode: Episode) -> tuple[Hit, ...]:
        """The hits in the ranker's order, scored by rank, for scores never increase."""
        order = order_of(episode) or list(range(min(self.rollout.keep, len(hits))))
        return tuple(
            hits[i]._replace(score=float(len(order) - rank)) for rank, i in enumerate(order)
        )


def order_of(episode: Episode) -> list[int] | None:
    """Read a ranker's order: places, from 0, in the list it was shown, at most as many as are kept.
    None if it is malformed: no number, one of no passage, or one twice."""
    meta = episode.config.task.meta
    numbers = [int(n) - 1 for n in _NUMBER.findall(episode.answer)]
    sound = all(0 <= n < len(meta["passages"]) for n in numbers)
    if episode.end != "answered" or not numbers or not sound or len(set(numbers)) < len(numbers):
        return None
    return numbers[: int(meta["keep"])]


def clusters(queries: Sequence[str], similar: float) -> list[int]:
    """Number of each query's cluster, from 0 in the order of first members: single links between
    queries whose token F1 is at least ``similar``."""
    root = list(range(len(queries)))

    def top(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    for i, one in enumerate(queries):
        for j in range(i):
            if one == queries[j] or token_f1(one, queries[j]) >= similar:
                a, b = sorted((top(i), top(j)))
                root[b] = a
    numbers: dict[int, int] = {}
    return [numbers.setdefault(top(i), len(numbers)) for i in range(len(queries))]


class RankingReward(RewardTransform):
    """R of a ``"ranker"``: ``quality`` · nDCG@keep + ``outcome`` · the outcome of the episode in
    which it acted - ``malformed`` if its order was none, whose nDCG is that of the engine's order.
    Gold passages have grade 1; where none is among those found, nDCG is 0 (CoSearch, arXiv
    2604.17555: ranking quality and trajectory outcome; the weights are ours).
    """

    registered = "outcome:ranking"

    def __init__(self, quality: float = 0.5, outcome: float = 0.5, malformed: float = 0.1) -> None:
        self.quality, self.outcome = float(quality), float(outcome)
        self.malformed = float(malformed)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        outcome, of = np.array(rewards.outcome), outcomes_served(group, rewards)
        for i, member in enumerate(group.members):
            if member.role == RANKER and not np.isnan(outcome[i]):
                ranked = self.quality * ndcg(member.episode) + self.outcome * of[i]
                outcome[i] = ranked - self.malformed * (order_of(member.episode) is None)
        return Rewards(outcome, rewards.turns)


def ndcg(episode: Episode) -> float:
    """nDCG of the order that a ranker's episode led to, cut after the passages that are kept."""
    task = episode.config.task
    ids, keep = task.meta["passages"], int(task.meta["keep"])
    order = order_of(episode) or range(min(keep, len(ids)))
    value = ndcg_at([ids[i] for i in order], dict.fromkeys(task.evidence, 1), keep)
    return 0.0 if math.isnan(value) else value
