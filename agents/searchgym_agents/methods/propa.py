"""Another rollout, and an expert's episodes where none of a group succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from searchgym.rl import Demonstrations, Group, RolloutStrategy, TaskPlan, Workers, make, total


class Rescued(RolloutStrategy):
    """The groups of another rollout; one without a success is given ``experts`` episodes of an
    expert besides, which are marked as such (``Batch.expert``) and have no sampling
    log-probabilities. So a policy imitates where it finds nothing to reinforce, and nowhere else
    (PROPA, Jiang et al., arXiv 2511.10279, whose supervised steps are on failed instances).

    Args:
        rollout: As in a recipe.
        expert: As in :class:`~searchgym.rl.rollouts.demonstrations.Demonstrations`; default: the
            oracle of the setting's tasks.
        experts: Episodes of the expert.
        solved: Return of a success.
    """

    registered = "rollout:rescued"
    unsampled = True

    def __init__(
        self, rollout: Any = "chains", *, expert: Any = None, experts: int = 1, solved: float = 0.5
    ) -> None:
        self.rollout: RolloutStrategy = make("rollout", rollout)
        self.demonstrations = Demonstrations(expert, size=experts)
        self.solved = float(solved)
        self.adds = frozenset({"expert", *self.rollout.adds})
        self.requires, self.provides = self.rollout.requires, self.rollout.provides
        self.roles, self.frozen = self.rollout.roles, self.rollout.frozen
        self.truncates = self.rollout.truncates

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups: list[Group] = self.rollout.collect(plans, workers)
        lost = [k for k, g in enumerate(groups) if not self._succeeded(g)]
        shown = self.demonstrations.play([plans[k] for k in lost], workers, "expert-")
        for k, theirs in zip(lost, shown, strict=True):
            more = (replace(m, purpose="expert") for m in theirs.members)
            groups[k] = replace(groups[k], members=(*groups[k].members, *more))
        return groups

    def _succeeded(self, group: Group) -> bool:
        return any(m.purpose != "baseline" and total(m) >= self.solved for m in group.members)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.rollout.state_dict())

    def load_state_dict(self, state: Any) -> None:
        self.rollout.load_state_dict(state)
