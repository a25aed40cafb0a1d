"""The seven slots, each a base class that declares what its objects may say of themselves.

An object's options are its constructor's keyword arguments. ``requires`` names what it reads and
others must provide: a field of ``Batch`` (``"ref_logp"``), a signal (``"return"``),
``"turn_reward"``, which a reward transform provides, or a note of an estimator for a loss
(``"picked"``). A recipe whose needs are not met fails before training, by name. Objects with memory
put it into ``state_dict``, as JSON values, and into ``tensors``.

A class is registered by standing in its slot's package with a line ``registered = "name"``, or by a
plug-in (:mod:`searchgym.plugins`); :func:`make` makes objects of names, paths and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from ...errors import CardError, check_known
from ...objects import Remembering, from_spec
from ...types import Task
from .batch import Batch, Estimate, Mean, Output, Totals
from .records import Floats as Floats
from .records import Group, Rewards, Scored, Signals, TaskPlan, Workers
from .registry import REGISTRY, SlotName

Result = tuple[Tensor, Mapping[str, float | Mean]]
"""Result of a loss."""
Coef = Mapping[str, float]
"""Coefficients of a step, by name."""


class RunFacts(NamedTuple):
    """Facts about a training that are known before it begins."""

    updates: int
    """Optimizer updates per step."""
    most_tokens: int | None = None
    """Tokens that an episode may sample, at most; None: not known."""


class Reduction(NamedTuple):
    """A claim that an object is another one under some options; ``contracts`` checks it."""

    options: Mapping[str, Any]
    """Options of the object itself."""
    to: Mapping[str, Any]
    """The other, as in a recipe."""
    where: str = "anywhere"
    """Place of the claim. ``"on-policy"``: where old and new policy are equal; ``"one token"``: on
    trajectories of one token."""


class Slot(Remembering):
    """Base of the objects of all slots."""

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

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """Options that change nothing in such a training, and why (``rl.diagnostics``)."""
        return {}

    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors for the checkpoint: weights of a signal that learns, a buffer's arrays."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what ``tensors`` gave; called after ``load_state_dict``."""


class RolloutStrategy(Slot):
    """Plays a task's group."""

    size: int = 0
    """Members of a group; 0: not said."""
    truncates: bool = False
    """True if members may stop before their episodes have ended, and are trained on all the
    same."""

    def collect(self, plans: Sequence[TaskPlan], workers: Workers, /) -> list[Group]:
        """One group per plan, in order, of finished episodes unless it truncates. A group may hold
        members that the policy did not play, of purposes that it declares (``adds``)."""
        raise NotImplementedError


class Signal(Slot):
    """Measures played groups; ``provides`` names what it adds."""

    by_turn: frozenset[str] = frozenset()
    """Subset of ``provides`` that holds a number for each turn, (M, K)."""

    def measure(self, groups: Sequence[Group], workers: Workers, /) -> list[Signals]:
        """Measure each group: by name (M,) or, by turn, (M, K); NaN where there is none."""
        raise NotImplementedError


class RewardTransform(Slot):
    """Turns signals into rewards. Several are applied one after another; what turns were paid by
    those before is handed on."""

    gates: bool = False
    """True if it multiplies what turns were paid so far, e.g. by whether the answer was right."""
    reshapes_turns: bool = False
    """True if it replaces what turns were paid so far."""

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef, /) -> Rewards:
        """New rewards from those so far. ``outcome`` is paid at the end of an episode, ``turns`` at
        the end of each turn; estimators that tell no turns apart see their sum."""
        raise NotImplementedError


class AdvantageEstimator(Slot):
    """Turns rewards into advantages. ``batch.reward`` (N,) is what a trajectory earned in all,
    ``batch.token_reward()`` (N, T) where it was paid, ``batch.signal(name)`` what was measured."""

    relative: bool = False
    """True if groups whose rewards are all equal get exactly 0."""
    invariant: frozenset[str] = frozenset()
    """Changes of a group's rewards that change nothing: ``"shift"`` (a number is added to all),
    ``"scale"`` (all are multiplied)."""
    reductions: tuple[Reduction, ...] = ()

    def estimate(self, batch: Batch, coef: Coef, /) -> Estimate:
        """Advantages and what else the method says of a batch, which is left as it is."""
        raise NotImplementedError


class Loss(Slot):
    """Computes the loss. Several are added, each times ``coef[name]`` or its own ``weight``."""

    name: str = "policy"
    weight: float = 1.0
    whole_groups: bool = False
    """True if it compares members, so that micro-batches must not split a group."""
    scales_clip: bool = False
    """True if it reads ``batch.clip_scale``."""
    prepares_with_logp: bool = False
    """True if :meth:`prepare` needs log-probabilities under the current weights: one more forward
    pass per update."""
    reductions: tuple[Reduction, ...] = ()

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """Notes from the whole mini-batch of an update, (N,) or (N, T), without gradient: a ranking
        of tokens among all of them, a count of pairs. Parts of the mini-batch hold their share
        (``batch.note``). ``output`` is None unless ``prepares_with_logp``."""
        return {}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef, /) -> Result:
        """A 0-D tensor, such that the losses of parts of a batch add up to that of the whole; and
        statistics by name: numbers are means over ``batch``'s trained tokens, others a ``Mean``."""
        raise NotImplementedError


class DataPolicy(Slot):
    """Chooses the next tasks and the groups that are kept."""

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, /, env: Any = None
    ) -> list[TaskPlan]:
        """Tasks to play now. May be asked again in the same step if too few groups are kept.

        ``env`` is the environment that they are played in: its ``tasks`` are those given, and
        ``corpus, world, engine, toolbox, rules`` may be read. A plan may hold tasks that are not
        among them, e.g. made from the world."""
        raise NotImplementedError

    def admit(self, scored: Scored, /) -> Scored | None:
        """The group, or part of it, if it is to be trained on. Members may be added, scored, whose
        purpose it declares (``adds``)."""
        return scored

    def observe(self, scored: Scored, /) -> None:
        """A group was played."""

    def enough(self, kept: int, wanted: int, rounds: int, /) -> bool:
        """Check whether to go on with ``kept`` groups after ``rounds`` rounds of playing."""
        return rounds >= 1


class CoefficientSchedule(Slot):
    """Sets the coefficients of each step."""

    names: frozenset[str] = frozenset()
    """Names of the coefficients that it sets."""

    def coef(self, step: int, metrics: Mapping[str, float], /) -> Mapping[str, float]:
        """``metrics``: those of the step before. ``"lr"`` is a factor on the learning rate."""
        raise NotImplementedError


@runtime_checkable
class Learner(Protocol):
    """A signal or rollout that learns: a process reward model, a head on hidden states."""

    def fit(self, scored: Sequence[Scored], /) -> Mapping[str, float]:
        """Learn from the groups that were trained on, after the update, and return metrics."""
        ...


@runtime_checkable
class Replay(Protocol):
    """A data policy that keeps groups to train on again."""

    def replay(self, count: int, step: int, seed: int, /) -> Sequence[Scored]:
        """Groups of earlier steps, trained on beside the ``count`` of this one. Their rewards stand
        and their advantages are estimated anew; how far the policy has moved since, their rows'
        ``logp`` says (loss ``decoupled``)."""
        ...


BASES: Mapping[SlotName, tuple[type[Slot], str]] = {
    "rollout": (RolloutStrategy, "collect"),
    "signal": (Signal, "measure"),
    "reward": (RewardTransform, "apply"),
    "advantage": (AdvantageEstimator, "estimate"),
    "loss": (Loss, "__call__"),
    "data": (DataPolicy, "plan"),
    "schedule": (CoefficientSchedule, "coef"),
}
"""Slot → its base class, and the method by which its objects are called."""


def make(slot: SlotName, spec: Any) -> Any:
    """An object from a name, an import path, a table or itself.

    Args:
        slot: One of ``REGISTRY``.
        spec: ``"grpo"``, ``"package.module:Class"``, ``{"use": either, **options}``, or an object,
            which is returned.

    Raises:
        CardError: an unknown name or option, or an object that does not fit the slot.
    """
    check_known("slot", REGISTRY, slot)
    base, method = BASES[slot]
    if isinstance(spec, type):
        raise CardError(f"the slot {slot!r} holds an object, not a class: write {spec.__name__}(…)")
    spec = from_spec(slot, spec, REGISTRY[slot], accepts=(method, "state_dict", "load_state_dict"))
    if not isinstance(spec, base):
        raise CardError(
            f"{type(spec).__name__} cannot fill the slot {slot!r}: it is no subclass of "
            f"searchgym.rl.{base.__name__}, which has all but {method}"
        )
    return spec
