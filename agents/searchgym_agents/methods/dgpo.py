"""DGPO's rollout: where the student fails, its teacher plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from searchgym import CardError
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.rl import Chains, Demonstrations, Group, TaskPlan, Workers, total


class Taught(Chains):
    """Chains of the student. Questions that none of them solves are played by the teacher, the
    model that also scores the student's tokens: greedily, once, in the student's prompt format. Its
    episode is a member of its own kind (``Batch.expert``), if it solves the question.

    Args:
        size: Episodes of the student.
        solved: Return of a success.
    """

    registered = "rollout:taught"
    requires = frozenset({"teacher_logp"})
    adds = frozenset({"expert"})
    unsampled = True

    def __init__(self, size: int = 8, solved: float = 0.5) -> None:
        super().__init__(size)
        self.solved = float(solved)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        groups = super().collect(plans, workers)
        lost = [k for k, g in enumerate(groups) if not any(map(self._succeeded, g.members))]
        teacher = Demonstrations(teacher_of(workers))
        shown = teacher.play([plans[k] for k in lost], workers, "teacher-") if lost else []
        for k, theirs in zip(lost, shown, strict=True):
            more = (replace(m, purpose="expert") for m in theirs.members if self._succeeded(m))
            groups[k] = replace(groups[k], members=(*groups[k].members, *more))
        return groups

    def _succeeded(self, member: object) -> bool:
        return total(member) >= self.solved  # type: ignore[arg-type]


def teacher_of(workers: Workers) -> CausalLMPolicy:
    """The teacher as a policy that plays greedily.

    Raises:
        CardError: these workers have none: those in further processes must be made with it.
    """
    if workers.teacher is None:
        raise CardError("no teacher plays here: give Workers(…, teacher=TrainableLM(…))")
    asked = workers.policy
    greedy = asked.sampling._replace(temperature=0.0)
    generator = workers.teacher.generator()
    return CausalLMPolicy(generator, asked.renderer, sampling=greedy, seed=asked.seed)
