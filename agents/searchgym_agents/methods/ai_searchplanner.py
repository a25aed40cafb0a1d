"""AI-SearchPlanner: the policy plans the searches, a frozen generator answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from searchgym import (
    ABSTAIN,
    Answer,
    Episode,
    Failure,
    Search,
    TurnRequest,
    run_episodes,
    run_tools,
)
from searchgym.dialects.base import get_dialect
from searchgym.errors import DialectError
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
)
from searchgym.seeding import derive

GENERATOR = "generator"
ALONE, NAIVE = "alone", "naive"
"""Suffixes of the ids of the two episodes that a group is compared with."""


class Planned(Chains):
    """Chains in which the policy decides what is searched and when it is enough, and the role
    ``"generator"`` answers: its text takes the place of the policy's last turn (AI-SearchPlanner,
    arXiv 2508.20368). What the policy wrote there stays in its rows, for it has decided to stop.

    Each group has two baselines, which are not trained on: the generator's answer without a search,
    and after one search for the question itself. Where nothing can be searched there is the first
    alone.

    Args:
        size: Episodes of a group, without the baselines.
    """

    registered = "rollout:planned"
    provides = frozenset({"baseline"})
    roles = frozenset({GENERATOR})
    frozen = frozenset({GENERATOR})

    def __init__(self, size: int = 8) -> None:
        super().__init__(size)
        self.provides = type(self).provides

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        policy, toolbox = workers.policy, workers.env.toolbox
        played = [self._start(plan, workers) for plan in plans]
        everyone = [e for episodes in played for e in episodes]
        run_episodes(everyone, policy, toolbox, batch=max(len(everyone), 1))
        handed = [[_handed_over(e) for e in episodes] for episodes in played]
        floors = [_baselines(plan, workers) for plan in plans]
        run_tools([e for pair in floors for e in pair], toolbox)
        _answer([e for group in (*handed, *floors) for e in group if e.phase == "act"], workers)
        return [
            Group(
                plan,
                (
                    *(_member(own, end, workers) for own, end in zip(mine, ends, strict=True)),
                    *(Played(e, (), "baseline", role=GENERATOR) for e in floor),
                ),
            )
            for plan, mine, ends, floor in zip(plans, played, handed, floors, strict=True)
        ]


def _handed_over(episode: Episode) -> Episode:
    """A copy without the last turn, which is the generator's; one that the infrastructure ended is
    left as it is."""
    if episode.end == "infra_error":
        return episode
    copy = episode.fork(at=len(episode.turns) - 1)
    copy.parent = None  # it is the episode itself, not a branch of it
    return copy


def _baselines(plan: TaskPlan, workers: Workers) -> list[Episode]:
    """The question alone, and with what a search for the question itself shows, if one can be."""
    alone, naive = (
        workers.env.start(
            derive(plan.key, "episode", name), task=plan.task, params=plan.params,
            search_enabled=False if name == ALONE else None, episode_id=f"{plan.name}.{name}",
        )
        for name in (ALONE, NAIVE)
    )  # fmt: skip
    search = Search((plan.task.question,))
    dialect = get_dialect(workers.env.rules.dialect)
    if naive.queries_left == 0 or Search not in dialect.renders:
        return [alone]
    naive.act(dialect.render_action(search))
    return [alone, naive]


def _answer(episodes: Sequence[Episode], workers: Workers) -> None:
    """End episodes by the generator's texts; whatever it writes is the answer."""
    agent = workers.agent(GENERATOR)
    requests = [_request(e) for e in episodes]
    texts = agent.act(requests)
    for episode, text in zip(episodes, texts, strict=True):
        if isinstance(text, Failure):
            episode.fail(text)
        else:
            episode.act(_as_answer(episode, text))
    if (forget := getattr(agent, "forget", None)) is not None:
        forget([r.episode_id for r in requests])


def _request(episode: Episode) -> TurnRequest:
    """The turn as the first one of an episode of the generator's own, who has written none of what
    it reads and may ask nothing."""
    (request,) = episode.requests()
    return request._replace(
        episode_id=f"{request.episode_id}:{GENERATOR}", turn=0, role=GENERATOR, tools=(),
        segments=tuple(s._replace(author="env") for s in request.segments),
        turns_left=1, queries_left=0,
    )  # fmt: skip


def _as_answer(episode: Episode, text: str) -> str:
    """The text, if it is an answer, or else one that gives it as the answer; an empty one
    refuses."""
    dialect = get_dialect(episode.config.rules.dialect)
    if isinstance(dialect.parse(text).action, Answer):
        return text
    try:
        return dialect.render_action(Answer(text.strip()))
    except DialectError:
        return dialect.render_action(Answer(ABSTAIN))


def _member(own: Episode, end: Episode, workers: Workers) -> Played:
    """The episode as it ended, with the rows of what the policy wrote."""
    policy, name = workers.policy, own.config.episode_id
    rows, usage = tuple(policy.rows(own)), policy.episode_usage(name)
    policy.forget([name])
    return Played(end, rows, usage=usage)


class GainReward(RewardTransform):
    """R = S - max(S_no search, S_naive RAG) + ``process`` · u / n - ``cost`` · q, of an episode in
    which u of the n turns that searched showed a gold passage for the first time, and q queries
    ran; the group's baselines keep their S (AI-SearchPlanner, arXiv 2508.20368: improvement over
    baselines, rationality of the plan, cost; the exact form was not read, this one is ours).

    Without baselines that can be scored nothing is subtracted.

    Args:
        cost: Of a query; 0, .02 and .05 trace the front of score and calls.
        process: Weight of the turns' use, which the world knows and the paper asks a judge for.
    """

    registered = "outcome:gain"
    requires = frozenset({"baseline"})

    def __init__(self, cost: float = 0.02, process: float = 0.1) -> None:
        if cost < 0 or process < 0:
            raise ValueError(f"cost and process are at least 0, got {cost}, {process}")
        self.cost, self.process = float(cost), float(process)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        outcome = np.array(rewards.outcome)
        floor = np.array([m.purpose == "baseline" for m in group.members])
        known = outcome[floor & ~np.isnan(outcome)]
        best = float(known.max()) if len(known) else 0.0
        for i, member in enumerate(group.members):
            if not floor[i]:
                outcome[i] += self.process * useful(member) - best
                outcome[i] -= self.cost * member.episode.queries
        return Rewards(outcome, rewards.turns)


def useful(member: Played) -> float:
    """Share of the turns that called a tool which showed a new gold passage; 0 without any."""
    showed = [t.reward_parts.get("evidence", 0.0) > 0 for t in member.episode.turns if t.calls]
    return sum(showed) / len(showed) if showed else 0.0
