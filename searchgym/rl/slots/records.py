"""Records passed between slots before they become tensors: plans, played groups, rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.episode import Episode
from ...envs.search import SearchEnv
from ...errors import CardError
from ...policies.causal_lm import CausalLMPolicy
from ...policies.rows import POLICY as POLICY
from ...policies.rows import TrainingRow
from ...policies.trainable import TrainableLM
from ...types import Agent, Task

Floats = NDArray[np.float64]
Purpose = Literal["train", "expert", "replayed", "baseline"]
SHARED = "shared"
"""Name that stands for the policy in training where it plays another role, too."""
FROZEN = "frozen"
"""Name that stands for the role ``"policy"`` where the policy plays and only other roles learn."""


@dataclass(frozen=True, slots=True)
class OwnWeights:
    """Weights and an optimizer of its own for a role, trained on the tokens that it writes. A
    trainer also takes the model alone."""

    lm: TrainableLM
    policy: CausalLMPolicy | None = None
    """Plays the role over the weights of ``lm``; default: ``lm.policy()``, with the sampling of the
    policy."""
    lr: float | None = None
    """Learning rate; default: the training's."""

    @property
    def player(self) -> CausalLMPolicy:
        """Policy that plays the role."""
        assert self.policy is not None  # the trainer has filled it in
        return self.policy


class TaskPlan(NamedTuple):
    """One task to be played by a group."""

    task: Task
    name: str
    """Episode ids begin with it; unique in a run."""
    key: int
    """Fixes what is random about the group."""
    params: Mapping[str, float] = {}
    """Difficulty parameters."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode and its token ids: a finished one, unless the rollout ``truncates``. Rows are in
    order; each sampled token is in one."""

    episode: Episode
    rows: tuple[TrainingRow, ...]
    purpose: Purpose = "train"
    """``expert``: another policy's, trained on and marked by ``Batch.expert``. ``replayed``: this
    policy's of an earlier step, marked by ``Batch.replayed``. Who adds either to a group declares
    it (``Slot.adds``). ``baseline``: played for comparison (ReMax's greedy twin), never trained
    on."""
    parent: int | None = None
    """Place in its group of the member that it branched off from; its rows hold none of that one's
    tokens (``rows_of(since=…)``), so that nothing is trained on twice."""
    siblings: int = 0
    """Number of its sub-group: members of a group with equal numbers branched off at one place and
    share a baseline there (``Batch.siblings``)."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage of the policy's turns, summed (:func:`searchgym.policies.record.turn_usage`)."""
    role: str = POLICY
    """Role that played the episode. Another role's is one that a rollout made for it: what it read
    as the question, what it wrote as the answer. Metrics of episodes are of the role
    ``"policy"``."""
    serves: str = ""
    """Id of the episode, of the same group, in which another role acted by this one."""

    @property
    def broken(self) -> bool:
        """The infrastructure failed: not the policy's fault."""
        outcome = self.episode.outcome()
        return outcome is not None and outcome.end == "infra_error"

    @property
    def finished(self) -> bool:
        """True if the episode has ended."""
        return self.episode.phase == "done"

    @property
    def since(self) -> int:
        """First turn of its own: the earlier ones are its parent's, which trains on them."""
        at = self.episode.parent
        return 0 if self.parent is None or at is None else at[1]

    @property
    def tokens(self) -> int:
        """Sampled tokens."""
        return sum(int(row.sampled.sum()) for row in self.rows)

    @property
    def unsampled(self) -> bool:
        """True if tokens that are trained on have no sampling log-probabilities: their version is
        -1, for no weights drew them (``Slot.unsampled``)."""
        return any(bool((row.version[row.loss_mask] < 0).any()) for row in self.rows)

    @property
    def turns(self) -> NDArray[np.int64]:
        """(tokens,) the turn of each sampled token, row by row: the numbers recorded in the rows'
        uids, ``"<trajectory>/<number>"``."""
        parts = [np.zeros(0, np.int64)]
        for row in self.rows:
            numbers = np.array([int(uid.rpartition("/")[2]) for uid in row.turn_uids], np.int64)
            parts.append(numbers[row.turn_of_token[row.sampled]])
        return np.concatenate(parts)

    @property
    def order(self) -> NDArray[np.int64] | None:
        """(tokens,) places of the sampled tokens, as the rows have them, in the order in which they
        were written; None where that is the rows'. It is another where a sub-task was handed over:
        the planner's row begins before and ends after the executor's."""
        if len(self.rows) < 2:
            return None
        turns = self.turns
        return np.argsort(turns, kind="stable") if (np.diff(turns) < 0).any() else None


@dataclass(frozen=True, slots=True)
class Group:
    """The episodes of one plan, which share a baseline."""

    plan: TaskPlan
    members: tuple[Played, ...]
    places: tuple[int, ...] = ()
    """Place of each member in the group as it was played, to which ``Played.parent`` refers; empty
    where none was dropped."""

    def place(self, member: int) -> int:
        """A member's place in the group as it was played."""
        return self.places[member] if self.places else member


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of the M members of a group. A member with NaN cannot be scored and is left out."""

    outcome: Floats
    """(M,) reward of the episode as a whole, paid at its end."""
    turns: Floats | None = None
    """(M, K) paid for each turn besides; NaN where a member has no such turn."""

    @property
    def total(self) -> Floats:
        """(M,) outcome and turns together."""
        return self.outcome if self.turns is None else self.outcome + np.nansum(self.turns, 1)


def wider(values: Floats, width: int) -> Floats:
    """Widen (M, K) to (M, ``width``), with NaN for turns that no member has."""
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=np.nan)


Signals = Mapping[str, Floats]
"""Name → measurements of a group's members: (M,), or (M, K) by turn with NaN where a member has no
such turn. Estimators find them in ``Batch.signals``."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A group with what it earned."""

    group: Group
    signals: Signals
    rewards: Rewards

    @property
    def training(self) -> list[int]:
        """Places of the members that are trained on: those scored that are no baselines."""
        return [
            i
            for i, m in enumerate(self.group.members)
            if m.purpose != "baseline" and not np.isnan(self.rewards.outcome[i])
        ]

    def only(self, places: Sequence[int]) -> Scored:
        """The members at ``places`` alone, with what they earned."""
        at, turns, group = list(places), self.rewards.turns, self.group
        members = tuple(group.members[i] for i in at)
        return Scored(
            replace(group, members=members, places=tuple(map(group.place, at))),
            {name: np.asarray(values[at]) for name, values in self.signals.items()},
            Rewards(self.rewards.outcome[at], None if turns is None else turns[at]),
        )


@dataclass(frozen=True, slots=True)
class Workers:
    """Environment, policy and helpers that play and score rollouts."""

    policy: CausalLMPolicy
    env: SearchEnv
    lm: TrainableLM
    teacher: TrainableLM | None = None
    coef: Mapping[str, float] = field(default_factory=dict)
    roles: Mapping[str, Agent | OwnWeights | str] = field(default_factory=dict)
    """Name → who plays a role besides the policy's: an agent, whose weights stay as they are,
    ``"shared"``: the policy itself, or a model with an optimizer of its own."""

    def __post_init__(self) -> None:
        """Let the roles to which the environment's sub-tasks are handed play within its
        episodes."""
        if not self.roles:
            return
        handed = [role for role in self.env.rules.delegates if role in self.roles]
        cast = {role: self.agent(role) for role in handed if self.roles[role] != SHARED}
        self.policy.cast = cast
        self.policy.learners = {
            role: who for role, who in cast.items()
            if self.trains(role) and isinstance(who, CausalLMPolicy)
        }  # fmt: skip

    def agent(self, role: str) -> Agent:
        """Return the agent that plays a role.

        Raises:
            CardError: it is not given.
        """
        if role not in self.roles:
            raise CardError(f"nobody plays the role {role!r}: {how_to_give(role)}")
        who = self.roles[role]
        if isinstance(who, OwnWeights):
            return who.player
        return self.policy if isinstance(who, str) else who

    def trains(self, role: str) -> bool:
        """Check whether a role's tokens are trained on: it shares the policy's weights, or has an
        optimizer of its own."""
        return self.agent(role) is self.policy or isinstance(self.roles[role], OwnWeights)


def how_to_give(role: str) -> str:
    """Return what to type where a role is not given."""
    return (
        f"Trainer(…, roles={{{role!r}: agent}}) takes an agent, which stays as it is, 'shared', "
        "the policy in training itself, or a TrainableLM, which is trained by an optimizer of its "
        f"own; on the command line -s roles.{role}=MODEL, -s roles.{role}={SHARED} or "
        f"-s roles.{role}=own:MODEL"
    )


Packed = list[
    tuple[
        dict[str, Any], tuple[TrainingRow, ...], Purpose, int | None, int, Mapping[str, float],
        str, str,
    ]
]  # fmt: skip
"""Members of a group, each as the episode's snapshot, its rows, purpose, parent, siblings, usage,
role and whom it serves."""


def pack(group: Group) -> Packed:
    """Serialise all of a group but its plan."""
    return [
        (
            m.episode.snapshot(), m.rows, m.purpose, m.parent, m.siblings, dict(m.usage),
            m.role, m.serves,
        )
        for m in group.members
    ]  # fmt: skip


def unpack(plan: TaskPlan, packed: Sequence[Any], reward: Any = None) -> Group:
    """Restore what :func:`pack` was given; episodes are replayed.

    All processes of a training run its code, so a reward's own parts are imported by their paths;
    ``reward``: the environment's, where no path leads to one.
    """
    members = (Played(Episode.restore(s, reward=reward, trust=True), *rest) for s, *rest in packed)
    return Group(plan, tuple(members))
