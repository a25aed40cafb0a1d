"""Notes that outlast an episode: members of a group that read what the one before them wrote, and
a reward for notes that say something new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from searchgym import CardError, Episode
from searchgym.core import run_episodes
from searchgym.rewards import Outcome
from searchgym.rl import Chains, Group, TaskPlan, Workers
from searchgym.rl.rollouts.chains import played, start
from searchgym.text import normalise_answer
from searchgym.tools import notes_of, with_notes
from searchgym.types import Call, ToolResult


@dataclass(frozen=True)
class NoteNovelty:
    """Pay a written note ``scale`` · (1 - its largest overlap with a note that is kept already).

    The overlap is Jaccard's, of the sets of normalised words; ``most`` notes of an episode are
    paid. Notes that the episode began with count, so that what an earlier episode of the group
    wrote pays no more. ONI (Zheng et al., arXiv 2410.23022) rewards observations that a language
    model calls new and worth while; the rule by words and all numbers are ours.

    Raises:
        CardError: ``most`` is negative.
    """

    registered = "reward:note_novelty"
    systems = ("ONI",)

    scale: float = 0.1
    most: int = 8

    def __post_init__(self) -> None:
        if self.most < 0:
            raise CardError(f"note_novelty pays for most notes, 0 or more, got {self.most}")

    def turn(self, outcome: Outcome) -> float:
        before, after = _notes(outcome)
        if (
            not after
            or after[:-1] != before
            or len(after) - len(notes_of(outcome.task)) > self.most
        ):
            return 0.0
        said = [set(normalise_answer(note).split()) for note in after]
        shared = [len(said[-1] & old) / len(said[-1] | old) for old in said[:-1]]
        return self.scale * (1.0 - max(shared, default=0.0))


def _notes(outcome: Outcome) -> tuple[list[str], list[str]]:
    """The notes before and after the latest turn; equal ones where it wrote none."""
    action, results = outcome.action, outcome.results
    if not (isinstance(action, Call) and action.args.get("action") == "write" and results):
        return [], []
    result = results[0]
    if action.tool != "memory" or not isinstance(result, ToolResult):
        return [], []
    before = outcome.calls[0].ctx.state
    return notes_of(outcome.task) if before is None else before, result.state


class GroupMemory(Chains):
    """Plays a group's members one after the other, each with the notes that the best one before it
    left (of equal ones the latest), for environments with the tool ``memory``.

    After ExpeL (Zhao et al., arXiv 2308.10144), whose insights a language model draws from all
    episodes so far; here the agent's own notes go on. The members of a round of all groups are
    played in one batch.
    """

    registered = "rollout:group_memory"

    def __init__(self, size: int = 8) -> None:
        super().__init__(size)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        rounds: list[list[Episode]] = []
        left: list[tuple[float, list[str]]] = [(float("-inf"), notes_of(p.task)) for p in plans]
        for member in range(self.size):
            noted = [
                plan._replace(task=with_notes(plan.task, notes))
                for plan, (_, notes) in zip(plans, left, strict=True)
            ]
            episodes = [start(plan, workers, str(member), member) for plan in noted]
            run_episodes(episodes, workers.policy, workers.env.toolbox, batch=max(len(episodes), 1))
            for place, episode in enumerate(episodes):
                earned = sum(turn.reward for turn in episode.turns)
                if earned >= left[place][0]:
                    left[place] = earned, episode.tool_states.get("memory", left[place][1])
            rounds.append(episodes)
        return [
            Group(plan, tuple(played(episodes[i], workers.policy) for episodes in rounds))
            for i, plan in enumerate(plans)
        ]
