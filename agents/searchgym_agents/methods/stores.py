"""The base of data policies that store members of groups and train on some of them again.

Members of groups that are kept for later steps, with what they earned, and their checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from searchgym import Episode, Task
from searchgym.policies.rows import TrainingRow
from searchgym.rl import (
    POLICY,
    Floats,
    Group,
    Played,
    Rewards,
    Scored,
    TaskPlan,
    UniformTasks,
    wider,
)


class StoringTasks(UniformTasks):
    """Tasks in random order, and a store of members that survives a checkpoint. Those who store
    observe and admit, or replay."""

    remembers = ("_stored",)
    adds = frozenset({"replayed"})

    def __init__(self) -> None:
        super().__init__()
        self._stored = SuccessStore()

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, env: Any = None
    ) -> list[TaskPlan]:
        if env is not None:
            self._stored.reward = env.rules.reward
        return super().plan(tasks, count, step, seed, env)

    def tensors(self) -> Mapping[str, Tensor]:
        return self._stored.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self._stored.load_tensors(tensors)


_ARRAYS = ("ids", "sampled", "loss_mask", "logp", "version", "turn_of_token")


@dataclass(frozen=True, slots=True)
class Stored:
    """One member of a played group."""

    plan: TaskPlan
    member: Played
    signals: Mapping[str, Floats]
    """Name → (), or (K,) by turn."""
    outcome: float
    turns: Floats | None
    """(K,)."""
    step: int
    """Step in which it was played."""

    @classmethod
    def of(cls, scored: Scored, place: int, step: int) -> Stored:
        """The member at a place of a group. Its parent is forgotten, which will not be there."""
        turns = scored.rewards.turns
        member = replace(scored.group.members[place], purpose="replayed", parent=None, siblings=0)
        return cls(
            scored.group.plan,
            member,
            {name: np.array(values[place]) for name, values in scored.signals.items()},
            float(scored.rewards.outcome[place]),
            None if turns is None else turns[place].copy(),
            step,
        )

    @property
    def total(self) -> float:
        """Outcome and turns together."""
        return self.outcome + (0.0 if self.turns is None else float(np.nansum(self.turns)))

    def alone(self) -> Scored:
        """A group of this member alone."""
        turns = None if self.turns is None else self.turns[None]
        signals = {name: np.asarray(values)[None] for name, values in self.signals.items()}
        group = Group(self.plan, (self.member,))
        return Scored(group, signals, Rewards(np.array([self.outcome]), turns))


def with_member(scored: Scored, stored: Stored, instead_of: int) -> Scored:
    """A group in which a stored member stands in the place of another."""

    def put(values: Floats, new: Floats | None) -> Floats:
        if values.ndim == 2:
            row = np.full((1, 0), np.nan) if new is None else np.asarray(new, float)[None]
            width = max(values.shape[1], row.shape[1])
            values, row = wider(values, width), wider(row, width)
            made: Floats = values.copy()
            made[instead_of] = row[0]
            return made
        made = values.astype(float)
        made[instead_of] = np.nan if new is None else float(new)
        return made

    members = list(scored.group.members)
    members[instead_of] = stored.member
    rewards = scored.rewards
    turns = rewards.turns
    if turns is None and stored.turns is not None:
        turns = np.full((len(members), len(stored.turns)), np.nan)
    return Scored(
        replace(scored.group, members=tuple(members)),
        {name: put(values, stored.signals.get(name)) for name, values in scored.signals.items()},
        Rewards(
            put(rewards.outcome, np.array(stored.outcome)),
            None if turns is None else put(turns, stored.turns),
        ),
    )


def state_of(members: Sequence[Stored]) -> list[dict[str, Any]]:
    """Return all but the arrays of tokens, as JSON values."""
    return [
        {
            "plan": [s.plan.name, s.plan.key, dict(s.plan.params)],
            "episode": s.member.episode.snapshot(),
            "usage": dict(s.member.usage),
            "rows": [
                [r.trajectory_id, list(r.turn_uids), r.context, r.baseline_group, r.role]
                for r in s.member.rows
            ],
            "signals": {name: _plain(values) for name, values in s.signals.items()},
            "outcome": s.outcome,
            "turns": None if s.turns is None else _plain(s.turns),
            "step": s.step,
        }
        for s in members
    ]


def tensors_of(members: Sequence[Stored]) -> dict[str, Tensor]:
    """The arrays of tokens, by member, row and name."""
    return {
        f"{i}/{j}/{name}": torch.from_numpy(np.array(getattr(row, name)))
        for i, s in enumerate(members)
        for j, row in enumerate(s.member.rows)
        for name in _ARRAYS
    }


def restored(
    state: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], reward: Any = None
) -> list[Stored]:
    """Members that :func:`state_of` and :func:`tensors_of` were given; episodes are replayed.

    Args:
        reward: Reward of the environment, where it has parts of one's own.
    """
    made = []
    for i, one in enumerate(state):
        rows = tuple(
            TrainingRow(
                name, tuple(uids), context, group,
                **{array: tensors[f"{i}/{j}/{array}"].numpy() for array in _ARRAYS},
                role=role[0] if role else POLICY,  # older stores name none
            )
            for j, (name, uids, context, group, *role) in enumerate(one["rows"])
        )  # fmt: skip
        episode = Episode.restore(one["episode"], reward=reward)
        plan_name, key, params = one["plan"]
        plan = TaskPlan(episode.config.task, str(plan_name), int(key), dict(params))
        member = Played(episode, rows, "replayed", usage=dict(one["usage"]))
        signals = {name: np.array(values, float) for name, values in one["signals"].items()}
        turns = None if one["turns"] is None else np.array(one["turns"], float)
        made.append(Stored(plan, member, signals, float(one["outcome"]), turns, int(one["step"])))
    return made


def _plain(values: Floats) -> Any:
    """Numbers as JSON has them; NaN becomes None, which ``np.array(…, float)`` reads as NaN."""
    array = np.asarray(values, float)
    return np.where(np.isnan(array), None, array).tolist()  # type: ignore[call-overload]


class SuccessStore:
    """A list of members that survives a checkpoint: its parts of ``state_dict`` and ``tensors``.

    Episodes are restored when they are first asked for, with the reward of the environment in
    which they will be trained on (``reward``)."""

    def __init__(self) -> None:
        self.reward: Any = None
        self._members: list[Stored] = []
        self._state: list[Any] = []
        self._tensors: dict[str, Tensor] = {}

    @property
    def members(self) -> list[Stored]:
        """Members, in the order in which they were put in."""
        if self._state:
            self._members = restored(self._state, self._tensors, self.reward)
            self._state, self._tensors = [], {}
        return self._members

    @members.setter
    def members(self, members: Sequence[Stored]) -> None:
        self._state, self._tensors = [], {}
        self._members = list(members)

    def state_dict(self) -> list[dict[str, Any]]:
        """JSON values."""
        return list(self._state) or state_of(self._members)

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """Take back what ``state_dict`` gave."""
        self._members, self._state = [], list(state)

    def tensors(self) -> dict[str, Tensor]:
        """Arrays of tokens."""
        return dict(self._tensors) if self._state else tensors_of(self._members)

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what ``tensors`` gave."""
        self._tensors = dict(tensors)
