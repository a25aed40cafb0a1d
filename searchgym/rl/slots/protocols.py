"""The seven slots. Each is a plain object; its options are its constructor's keyword arguments.

``requires`` names what an object reads and others must provide: a field of ``Batch``
(``"ref_logp"``), a signal (``"return"``), ``"turn_reward"``, which a reward transform provides, or
a note of an estimator for a loss (``"picked"``).
A recipe whose needs are not met fails before training, by name. Objects with memory put it into
``state_dict``, as JSON values, and into ``tensors``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from ...types import Task
from .batch import Batch, Estimate, Mean, Output, Totals
from .records import Floats as Floats
from .records import Group, Rewards, Scored, Signals, TaskPlan, Workers

Result = tuple[Tensor, Mapping[str, float | Mean]]
"""Result of a loss."""


class RunFacts(NamedTuple):
    """Facts about a training that are known before it begins."""

    updates: int
    """Optimizer updates per step."""
    most_tokens: int | None = None
    """Tokens that an episode may sample, at most; None: not known."""


class Slot:
    """Common interface of all slots; subclassing it is optional."""

    requires: frozenset[str] = frozenset()
    """Names of inputs that other objects must provide."""
    provides: frozenset[str] = frozenset()
    """Names of what it provides to others."""
    reads: frozenset[str] = frozenset()
    """Names of the coefficients it takes from the schedule."""
    watches: frozenset[str] = frozenset()
    """Names of the logged metrics of the step before that it reads (``METRICS.md``)."""
    adds: frozenset[str] = frozenset()
    """Purposes of the members that a rollout or data policy adds to groups besides those that the
    policy played: ``"expert"``, ``"replayed"`` (``Played.purpose``)."""
    unsampled: bool = False
    """True if members that it gives may have no sampling log-probabilities
    (``Played.unsampled``): what requires ``"sampled_logp"`` is then refused."""
    roles: frozenset[str] = frozenset()
    """Roles besides the policy's that it asks the workers for (``Workers.agent``)."""
    frozen: frozenset[str] = frozenset()
    """Subset of ``roles`` that only an agent may play, not the policy itself."""
    by_turn: frozenset[str] = frozenset()
    """Subset of ``provides`` that holds a number for each turn, (M, K)."""

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """Options that change nothing in such a training, and why (``rl.diagnostics``)."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors for the checkpoint: weights of a signal that learns, a buffer's arrays."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what ``tensors`` gave; called after ``load_state_dict``."""


class Reduction(NamedTuple):
    """A claim that an object is another one under some options; ``contracts`` checks it."""

    options: Mapping[str, Any]
    """Options of the object itself."""
    to: Mapping[str, Any]
    """The other, as in a recipe."""
    where: str = "anywhere"
    """Place of the claim. ``"on-policy"``: where old and new policy are equal; ``"one token"``: on
    trajectories of one token."""


@runtime_checkable
class SlotObject(Protocol):
    """Object of any slot."""

    requires: frozenset[str]
    provides: frozenset[str]

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], /) -> None: ...


class RolloutStrategy(SlotObject, Protocol):
    """Plays a task's group. One whose members may stop before their episodes have ended, and are
    trained on all the same, says so with a line ``truncates = True``."""

    def collect(self, plans: Sequence[TaskPlan], workers: Workers, /) -> list[Group]:
        """One group per plan, in order, of finished episodes unless it truncates. A group may hold
        members that the policy did not play, of purposes that it declares (``Slot.adds``)."""
        ...


class Signal(SlotObject, Protocol):
    """Measures played groups; ``provides`` names what it adds."""

    def measure(self, groups: Sequence[Group], workers: Workers, /) -> list[Signals]:
        """Measure each group: by name (M,) or, by turn, (M, K); NaN where there is none."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A signal or rollout that learns: a process reward model, a head on hidden states."""

    def fit(self, scored: Sequence[Scored], /) -> Mapping[str, float]:
        """Learn from the groups that were trained on, after the update, and return metrics."""
        ...


class RewardTransform(SlotObject, Protocol):
    """Turns signals into rewards. Several are applied one after another.

    What turns were paid by those before is handed on; one that multiplies it, e.g. by whether the
    answer was right, says so with a line ``gates = True``.
    """

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float], /
    ) -> Rewards:
        """New rewards from those so far. ``outcome`` is paid at the end of an episode, ``turns`` at
        the end of each turn; estimators that tell no turns apart see their sum. Those of turns so
        far are handed on, unless the class says ``reshapes_turns = True``."""
        ...


class AdvantageEstimator(SlotObject, Protocol):
    """Turns rewards into advantages. ``batch.reward`` (N,) is what a trajectory earned in all,
    ``batch.token_reward()`` (N, T) where it was paid, ``batch.signal(name)`` what was measured."""

    relative: ClassVar[bool]
    """Groups whose rewards are all equal get exactly 0."""
    # Optional: ``invariant``, of "shift" (adding a number to all of a group's rewards changes
    # nothing) and "scale" (nor does multiplying all rewards by one); ``reductions``.

    def estimate(self, batch: Batch, coef: Mapping[str, float], /) -> Estimate:
        """Advantages; besides, if the method has them, factors on the clip range and a mask."""
        ...


class Loss(SlotObject, Protocol):
    """Computes the loss. Several are added, each times ``coef[name]`` or its own ``weight``."""

    name: str
    weight: float

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float], /
    ) -> Result:
        """A 0-D tensor, such that the losses of parts of a batch add up to that of the whole; and
        statistics by name: numbers are means over ``batch``'s trained tokens, others a ``Mean``."""
        ...


@runtime_checkable
class UpdateWide(Protocol):
    """A loss that must see the whole mini-batch of an update before the update is computed in
    parts: a ranking of tokens among all of them, a count of pairs."""

    prepares_with_logp: bool
    """True if it needs log-probabilities under the current weights for it: one more forward pass
    per update."""

    def prepare(
        self, batch: Batch, output: Output | None, coef: Mapping[str, float], /
    ) -> Mapping[str, Tensor]:
        """Notes for the loss itself, (N,) or (N, T), without gradient; the parts of the mini-batch
        hold their share (``batch.note``). ``output`` is None unless ``prepares_with_logp``."""
        ...


class DataPolicy(SlotObject, Protocol):
    """Chooses the next tasks and the groups that are kept."""

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, /, env: Any = None
    ) -> list[TaskPlan]:
        """Tasks to play now. May be asked again in the same step if too few groups are kept.

        ``env`` is the environment that they are played in: its ``tasks`` are those given, and
        ``corpus, world, engine, toolbox, rules`` may be read. A plan may hold tasks that are not
        among them, e.g. made from the world."""
        ...

    def admit(self, scored: Scored, /) -> Scored | None:
        """The group, or part of it, if it is to be trained on. Members may be added, scored, whose
        purpose it declares (``Slot.adds``)."""
        ...

    def observe(self, scored: Scored, /) -> None:
        """A group was played."""
        ...

    def enough(self, kept: int, wanted: int, rounds: int, /) -> bool:
        """Check whether to go on with ``kept`` groups after ``rounds`` rounds of playing."""
        ...


@runtime_checkable
class Replay(Protocol):
    """A data policy that keeps groups to train on again."""

    def replay(self, count: int, step: int, seed: int, /) -> Sequence[Scored]:
        """Groups of earlier steps, trained on beside the ``count`` of this one. Their rewards stand
        and their advantages are estimated anew; how far the policy has moved since, their rows'
        ``logp`` says (loss ``decoupled``)."""
        ...


class CoefficientSchedule(SlotObject, Protocol):
    """Sets the coefficients of each step."""

    def coef(self, step: int, metrics: Mapping[str, float], /) -> Mapping[str, float]:
        """``metrics``: those of the step before. ``"lr"`` is a factor on the learning rate."""
        ...
