"""Groups that failed throughout are played again with a hint, which is then taken out (KEPO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...core.rollout import run_episodes
from ...types import Task, TurnRequest
from ..signals.outcome import total
from ..slots.records import Group, Played, TaskPlan, Workers
from .chains import Chains, played, start
from .demonstrations import Writer


class Hinted(Chains):
    """Chains; where none of a group's members earns more than ``success``, ``tries`` further
    episodes are played with a hint at the end of the question. One of those that succeed takes the
    place of the group's last member, *without the hint*: its texts are told again to the question
    as it is, and are trained on as written there.

    Under the plain question nobody sampled these tokens: the member is an ``"expert"``'s, without
    sampling log-probabilities. Tasks without gold queries get no hint.

    Args:
        size: Episodes of a group.
        tries: Episodes with a hint.
        hint: Its text; ``{query}`` is the task's first gold query.
        success: Return above which an episode has succeeded.
    """

    registered = "hinted"
    adds = frozenset({"expert"})
    unsampled = True

    def __init__(
        self,
        size: int = 8,
        *,
        tries: int = 4,
        hint: str = "Hint: search for {query}.",
        success: float = 0.5,
        flow: bool = False,
    ) -> None:
        super().__init__(size, flow=flow)
        if tries < 1 or "{query}" not in hint:
            raise ValueError(f"tries is at least 1 and hint holds {{query}}, got {tries}, {hint!r}")
        self.tries, self.hint, self.success = tries, hint, float(success)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = super().collect(plans, workers)
        failed = [
            i for i, group in enumerate(groups)
            if group.plan.task.queries and not any(map(self._succeeded, group.members))
        ]  # fmt: skip
        won = self._with_hints([groups[i].plan for i in failed], workers)
        for i, (number, texts) in ((failed[place], found) for place, found in won.items()):
            told = self._told(groups[i].plan, number, texts, workers)
            if self._succeeded(told):
                groups[i] = replace(groups[i], members=(*groups[i].members[:-1], told))
        return groups

    def _succeeded(self, member: Played) -> bool:
        return total(member) > self.success  # NaN is no success

    def _with_hints(
        self, plans: Sequence[TaskPlan], workers: Workers
    ) -> Mapping[int, tuple[int, list[str]]]:
        """Place of a plan → number and texts of its first hinted episode that succeeded."""
        hinted = [plan._replace(task=self._hinted(plan.task)) for plan in plans]
        episodes = [
            (place, i, start(plan, workers, f"hint-{i}", self.size + i))
            for place, plan in enumerate(hinted)
            for i in range(self.tries)
        ]
        everyone = [e for _, _, e in episodes]
        run_episodes(everyone, workers.policy, workers.env.toolbox, batch=max(len(everyone), 1))
        found: dict[int, tuple[int, list[str]]] = {}
        for place, i, episode in episodes:
            if self._succeeded(played(episode, workers.policy)):
                found.setdefault(place, (i, [turn.text for turn in episode.turns]))
        return found

    def _hinted(self, task: Task) -> Task:
        return replace(task, question=f"{task.question} {self.hint.format(query=task.queries[0])}")

    def _told(
        self, plan: TaskPlan, number: int, texts: Sequence[str], workers: Workers
    ) -> Played:
        """The hinted episode's texts, to the question without the hint; its other randomness is the
        same, so that the same results are read."""
        episode = start(plan, workers, f"told-{number}", self.size + number)
        writer = Writer(_Again(texts), workers.policy)
        run_episodes([episode], writer, workers.env.toolbox, batch=1)
        return replace(played(episode, workers.policy), purpose="expert")


class _Again:
    """An agent that says given texts, one a turn."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        return [self.texts[r.turn] if r.turn < len(self.texts) else "" for r in requests]
