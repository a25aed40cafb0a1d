"""Fathom's RAPO: GRPO without solved tasks, scaled by telling groups, with a stored success in
groups that fail."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from searchgym import Task
from searchgym.rl import Batch, Coef, Estimate, Over, Scored
from searchgym.rl.ops import RewardGroups
from searchgym.seeding import stream

from .stores import Stored, StoringTasks, with_member


def solve_rate(values: Sequence[float] | NDArray[np.float64], above: float = 0.5) -> float:
    """Share of a group's results that are successes, by ``above``; NaN counts nowhere."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    return float((known > above).mean()) if len(known) else 0.0


class FathomRAPO(StoringTasks):
    """All tasks in random order, epoch by epoch, without those that were solved.

    At the end of an epoch, tasks whose group had a solve rate of at least ``prune`` are left out
    for good; when none is left, all come back, with a warning. Of each task the latest success is
    stored; where all members of a group fail, it takes the place of a random one (purpose
    ``"replayed"``), with the reward that it earned. The estimator ``group_scaled`` is the third
    part of the method.

    Args:
        prune: Solve rate from which on a task is pruned; above 1: never.
        success: Results above it are successes.
        metric: Signal that holds the results; where rewards are paid for form, too, one of
            correctness.
        inject: Whether failed groups get a stored success.
    """

    registered = "data:fathom_rapo"

    def __init__(
        self,
        prune: float = 0.9,
        success: float = 0.5,
        metric: str = "return",
        inject: bool = True,
    ) -> None:
        super().__init__()
        if not prune > 0:
            raise ValueError(f"prune must be above 0, got {prune}")
        self.prune, self.success, self.inject = float(prune), float(success), inject
        self.metric, self.requires = metric, frozenset({metric})
        self.pruned: set[str] = set()
        """Ids of tasks that are not played any more."""
        self.solved: set[str] = set()
        """Ids of those that will be pruned at the end of the epoch."""
        self.epoch, self.place = 0, 0
        self._left: tuple[tuple[int, int, int], list[int]] | None = None

    def choose(
        self, tasks: Sequence[Task], key: int, seed: int
    ) -> tuple[Task, Mapping[str, float]]:
        if self.place >= len(self._order_of(tasks, seed)):
            self.pruned |= self.solved
            self.solved = set()
            self.epoch, self.place = self.epoch + 1, 0
            if all(t.id in self.pruned for t in tasks):
                warnings.warn(
                    f"all {len(tasks)} tasks are solved and pruned; they are played again",
                    stacklevel=2,
                )
                self.pruned = set()
        task = tasks[self._order_of(tasks, seed)[self.place]]
        self.place += 1
        return task, {}

    def _order_of(self, tasks: Sequence[Task], seed: int) -> list[int]:
        """The epoch's tasks, by their places."""
        name = (seed, self.epoch, len(tasks))
        if self._left is None or self._left[0] != name:
            order = stream(seed, "order", self.epoch).permutation(len(tasks))
            self._left = (name, [int(i) for i in order if tasks[int(i)].id not in self.pruned])
        return self._left[1]

    def observe(self, scored: Scored) -> None:
        task, results = scored.group.plan.task.id, scored.signals[self.metric]
        rate = solve_rate(results[scored.training], self.success)
        (self.solved.add if rate >= self.prune else self.solved.discard)(task)
        won = [i for i in scored.training if results[i] > self.success]
        if won and self.inject:
            others = [s for s in self._stored.members if s.plan.task.id != task]
            self._stored.members = [*others, Stored.of(scored, won[-1], self._place[0])]

    def admit(self, scored: Scored) -> Scored | None:
        results, places = scored.signals[self.metric], scored.training
        if not self.inject or not places or (results[places] > self.success).any():
            return scored
        task = scored.group.plan.task.id
        stored = next((s for s in self._stored.members if s.plan.task.id == task), None)
        if stored is None:
            return scored
        draw = stream(scored.group.plan.key, "replaced")
        return with_member(scored, stored, places[int(draw.integers(len(places)))])

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "pruned": sorted(self.pruned),
            "solved": sorted(self.solved),
            "epoch": self.epoch,
            "place": self.place,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.pruned, self.solved = set(state["pruned"]), set(state["solved"])
        self.epoch, self.place, self._left = int(state["epoch"]), int(state["place"]), None


def group_scale(reward: Tensor, group: Tensor) -> float:
    """Groups / groups whose rewards differ; 1 where none do."""
    groups = RewardGroups(reward, group)
    telling = len(groups.index[groups.differs].unique())
    return len(groups.count) / telling if telling else 1.0


class GroupScaled(Over):
    """``base``'s advantages times :func:`group_scale` of the step's batch: a step of few telling
    groups moves the policy as far as one of many."""

    registered = "advantage:group_scaled"

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        return made._replace(adv=made.adv * group_scale(batch.reward, batch.group))
