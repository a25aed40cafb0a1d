"""A method: one object per slot, from a name, a TOML file or a table; its training's options."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..core.rules import checked_switch
from ..curricula import Uniform
from ..envs.mixture import EnvironmentMix
from ..errors import CardError, check_known, unknown
from ..objects import build, check_number, check_whole, is_number, load_known
from ..policies.model_folder import sampling_of
from ..policies.scoring import TOKEN_MEASURES
from ..scoring.metrics import RL, SOMETIMES
from ..storage.checkpoint import under
from .critics import check_critic_table
from .data import ByCurriculum, UniformTasks
from .measures import loss_metrics
from .recipe_files import read, shipped
from .slots.protocols import (
    AdvantageEstimator,
    CoefficientSchedule,
    DataPolicy,
    Loss,
    Replay,
    RewardTransform,
    RolloutStrategy,
    Signal,
    Slot,
    make,
)
from .slots.registry import REGISTRY, SlotName
from .slots.samples import loss_statistics

if TYPE_CHECKING:
    from ..policies.trainable import TrainableLM


class MovingReference:
    """Moves the reference after every ``every``-th training step: θ_ref ← θ_ref + ``share`` ·
    (θ - θ_ref).

    With ``every`` 1 the reference is an exponential moving average of the policy; with ``share`` 1
    it is the policy of up to ``every`` steps ago. In several processes each moves its own copy, of
    the same weights.

    Args:
        every: Training steps from one move to the next.
        share: Share of the policy, in (0, 1].

    Raises:
        ValueError: one of them is out of its range.
    """

    def __init__(self, every: int = 1, share: float = 1.0) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every is a number of steps, at least 1, got {every!r}")
        if not is_number(share) or not 0 < share <= 1:
            raise ValueError(f"share is in (0, 1], got {share!r}")
        self.every, self.share = every, float(share)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> MovingReference | None:
        """Make one from a recipe's table; None from an empty one.

        Raises:
            CardError: an unknown option, or one out of its range.
        """
        made: MovingReference | None = build("[reference]", cls, table) if table else None
        return made

    def require_copy(self, lm: TrainableLM) -> None:
        """``CardError`` unless ``lm`` keeps a copy of its weights that can move."""
        if not lm.has_copy:
            raise CardError(
                "the recipe's [reference] moves a copy of the weights, and none is kept: "
                "TrainableLM(…, reference=True) without lora; the reference of adapters is the "
                "model without them, which stands still"
            )

    def after(self, steps: int, lm: TrainableLM) -> None:
        """Move the reference if it is due when ``steps`` steps are done."""
        if steps % self.every == 0:
            lm.blend_reference(self.share)


SEVERAL: tuple[SlotName, ...] = ("signal", "reward", "loss")
"""Slots that hold a list."""
TABLES = ("train", "env", "critic", "sampling", "reference")
"""Further tables of a recipe: defaults for the environment, trainer and sampling."""
DEFAULTS: Mapping[str, Any] = {
    "rollout": "chains", "signal": ["return"], "reward": ["weighted"], "data": "uniform",
    "schedule": "constant",
}  # fmt: skip
"""Defaults of the slots that a recipe leaves out."""
ALWAYS = frozenset({"old_logp", "sampled_logp", "entropy", *TOKEN_MEASURES})
"""Fields that every trainer provides when they are asked for."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The objects. Make one by :meth:`of`."""

    rollout: RolloutStrategy
    signal: tuple[Signal, ...]
    reward: tuple[RewardTransform, ...]
    advantage: AdvantageEstimator
    loss: tuple[Loss, ...]
    data: DataPolicy
    schedule: CoefficientSchedule
    train: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the trainer's configuration that belong to the method."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that the method is meant for (``gym.make``'s keywords). The
    trainer accepts others."""
    critic: Mapping[str, Any] = field(default_factory=dict)
    """Critic (``use``, a name in ``searchgym.rl.critics``), and those of its options that
    belong to the method, as defaults."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Options of the policy's sampling (:class:`~searchgym.llms.base.Sampling`), likewise."""
    reference: Mapping[str, Any] = field(default_factory=dict)
    """Times and extent of the reference's moves (:class:`~searchgym.rl.recipe.MovingReference`);
    empty: it stays what the model was before training."""
    table: Mapping[str, Any] = field(default_factory=dict)
    """Table it was made of."""

    @classmethod
    def of(cls, spec: str | Path | Mapping[str, Any] | Recipe) -> Recipe:
        """Make a recipe from the name of one, a TOML file's path or a table.

        Slots left out: chains of 8, the environment's return as signal and reward, uniform tasks,
        constant coefficients. Advantage and loss must be given.

        Raises:
            CardError: unknown slots, names or options.
        """
        if isinstance(spec, Recipe):
            return spec
        table = read(spec) if isinstance(spec, str | Path) else dict(spec)
        table.pop("doc", None)
        known = (*REGISTRY, *TABLES)
        check_known("slot", known, *table)
        for name in ("advantage", "loss"):
            if name not in table:
                raise CardError(f"a recipe needs the slot {name!r}; it has {sorted(table)}")
        filled = {**DEFAULTS, **table}
        slots: dict[str, Any] = {}
        for slot in REGISTRY:
            given = filled[slot]
            if slot in SEVERAL:
                one = isinstance(given, str) or not isinstance(given, Sequence)
                slots[slot] = tuple(make(slot, s) for s in ([given] if one else given))
            else:
                slots[slot] = make(slot, given)
        slots |= {name: dict(table.get(name, {})) for name in TABLES}
        check_critic_table(slots["critic"])
        MovingReference.of(slots["reference"])
        sampling_of(slots["sampling"])
        return cls(**slots, table=table)

    def parts(self) -> Iterator[tuple[str, Slot]]:
        """(place, object), e.g. ``("loss.0", …)``."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in SEVERAL:
                yield from ((f"{f.name}.{i}", v) for i, v in enumerate(value))
            elif f.name in REGISTRY:
                yield f.name, value

    def check(self, provided: frozenset[str]) -> None:
        """``CardError`` naming the first need that neither a part nor ``provided`` meets, what is
        given and no part reads (a teacher, critic, reference or coefficient), or a part that reads
        sampling log-probabilities where another gives members without."""
        there = provided | ALWAYS
        for _, part in self.parts():
            there |= part.provides
        for place, part in self.parts():
            for name in sorted(part.requires - there):
                advice = ADVICE.get(name) or _who_provides(name)
                raise CardError(
                    f"{place} ({type(part).__name__}) needs {name!r}, which nothing here provides: "
                    f"{advice}"
                )
        for name, who in LEARNT_FROM.items():
            if name in provided and not self.needs(name):
                raise CardError(
                    f"the recipe learns from no {who}, and one is given: leave it out, or take a "
                    "recipe that reads one"
                )
        if self.reference and not self.needs("ref_logp"):
            raise CardError("the recipe's [reference] moves a reference that no part of it reads")
        if "clip_scale" in self.advantage.provides and not self.scales_clip:
            raise CardError(f"advantage ({type(self.advantage).__name__}) {UNREAD_SCALE}")
        for place, part in self.parts():
            if part.unsampled:
                self.require_sampled(f"{place} ({type(part).__name__}) gives members")
        driven = {"lr", *(loss.name for loss in self.loss)}
        for _, part in self.parts():
            driven |= part.reads
        for name in sorted(self.schedule.names):
            if name not in driven and not name.startswith("w_"):
                raise CardError(unknown("coefficient of the schedule", name, sorted(driven)))

    def check_watched(self, rewards: Collection[str]) -> None:
        """``CardError`` for a metric that a part reads (``Slot.watches``) and this training does
        not log; ``rewards``: the parts of the environment's reward."""
        watched = [
            (place, part, name) for place, part in self.parts() for name in sorted(part.watches)
        ]
        if not watched:
            return
        logged = {name for name in RL if not name.endswith("/*")} - SOMETIMES
        logged |= {f"rewards/{name}" for name in rewards}
        if self.needs("ref_logp"):
            logged |= {"kl"}
        for loss in self.loss:
            logged |= set(loss_metrics(loss.name, dict.fromkeys(loss_statistics(loss))))
        if isinstance(self.data, Replay):
            logged |= {"groups_replayed"}
        closed = {"rewards", "replay", *REGISTRY["loss"], *(loss.name for loss in self.loss)}
        for place, part, name in watched:
            head, slash, _ = name.partition("/")
            if name not in logged and (not slash or head in closed or f"{head}/*" not in RL):
                raise CardError(
                    f"{place} ({type(part).__name__}) reads the metric {name!r}: "
                    + unknown("metric of this training", name, sorted(logged))
                )

    def require_sampled(self, what: str) -> None:
        """Refuse, by a ``CardError``, the parts that weigh tokens by how likely they were when they
        were sampled, since ``what`` has tokens that nobody sampled."""
        for place, part in self.parts():
            if "sampled_logp" in part.requires:
                raise CardError(
                    f"{place} ({type(part).__name__}) needs 'sampled_logp', and {what} without "
                    "sampling log-probabilities (an expert's): use a loss that reads none, such as "
                    "ppo, whose ratio is to the weights at the step's start, or sft, or keep it to "
                    "other members: {use = 'among', members = 'played', loss = …}"
                )

    @property
    def scales_clip(self) -> bool:
        """True if some loss reads an estimator's factors on the clip range."""
        return any(loss.scales_clip for loss in self.loss)

    def needs(self, name: str) -> bool:
        """Check whether any part reads it."""
        return any(name in part.requires for _, part in self.parts())

    @property
    def token_measures(self) -> list[str]:
        """Names of the measures of tokens' distributions that parts read."""
        return [name for name in TOKEN_MEASURES if self.needs(name)]

    def copy(self) -> Recipe:
        """Make a copy whose parts that remember (the tasks' order, stores, reward models) are its
        own, so that two trainings by one recipe do not go on with each other's."""

        return replace(self, **{slot: deepcopy(getattr(self, slot)) for slot in REGISTRY})

    def state_dict(self) -> dict[str, Any]:
        return {place: part.state_dict() for place, part in self.parts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for place, part in self.parts():
            part.load_state_dict(state[place])

    def tensors(self) -> dict[str, Tensor]:
        """Tensors of all parts that have some."""
        return {
            f"{place}/{name}": value.detach().contiguous()
            for place, part in self.parts()
            for name, value in part.tensors().items()
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        for place, part in self.parts():
            part.load_tensors(under(tensors, place))


LEARNT_FROM = {"teacher_logp": "teacher", "value": "critic"}
"""Models that a recipe may read besides the policy, by what they give."""
ADVICE: Mapping[str, str] = {
    "ref_logp": "TrainableLM(…, reference=True) or lora=Lora() keeps a reference",
    "teacher_logp": "give the trainer a teacher",
    "value": "give the trainer a critic",
    "baseline": "rollout = {use = 'chains', greedy_twin = true} plays one",
    "length": "add signal = ['length', …]",
    "em": "add signal = ['parts', …]",
    "return": "add signal = ['return', …]",
}


UNREAD_SCALE = (
    "gives factors on the clip range (clip_scale), which none of the losses reads: ppo, decoupled, "
    "gspo and cispo do; a loss of your own says so with scales_clip = True"
)


def _who_provides(name: str) -> str:
    names = []
    for slot, paths in REGISTRY.items():
        for known, path in paths.items():
            if name in load_known(path).provides:
                names.append(f"{slot} {known!r}")
    if not names:
        return (
            f"nothing registered always provides {name!r}; signal 'parts' gives parts of the "
            "environment's reward by their names, 'turn_parts' as turn_NAME, or write your own"
        )
    return f"add {' or '.join(names)}, which {'provides' if len(names) == 1 else 'provide'} it"


def under_curriculum(recipe: Recipe, mix: EnvironmentMix) -> tuple[Recipe, EnvironmentMix]:
    """Hand the curriculum of an environment over to the recipe, which chooses the tasks.

    Raises:
        CardError: the recipe chooses tasks in another way than uniformly, or one of several
            environments has a curriculum.
    """
    if all(isinstance(env.curriculum, Uniform) for env in mix.envs):
        return recipe, mix
    if len(mix.envs) > 1:
        raise CardError(
            "of several environments none may have a curriculum of its own: give it to the recipe, "
            "-s data.use=curriculum -s data.curriculum=NAME"
        )
    (env,) = mix.envs
    curriculum = env.curriculum
    if type(recipe.data) is not UniformTasks:
        raise CardError(
            f"the environment's curriculum ({type(curriculum).__name__}) and the recipe's data "
            f"policy ({type(recipe.data).__name__}) would both choose tasks: make the environment "
            "without curriculum=, or leave the recipe's slot 'data' out"
        )
    described = [type(curriculum).__name__, curriculum.state_dict()]
    table = {**recipe.table, "data": {"use": "curriculum", "curriculum": described}}
    env = env.copy()
    env.curriculum = Uniform()
    return replace(recipe, data=ByCurriculum(curriculum), table=table), EnvironmentMix([env])


__all__ = ["DEFAULTS", "SEVERAL", "TABLES", "Recipe", "read", "shipped"]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Training options that do not depend on the method; a recipe's ``train`` table changes the
    defaults."""

    steps: int = 100
    """Number of training steps."""
    tasks: int = 8
    """Tasks per step; each is played by one group of episodes."""
    epochs: int = 1
    """Passes over a step's trajectories."""
    minibatches: int = 1
    """Optimizer updates per pass; each takes whole trajectories."""
    lr: float = 1e-6
    """AdamW learning rate."""
    muon_lr: float = 0.0
    """Muon learning rate for the matrices within layers; 0 trains them by AdamW, too."""
    max_norm: float = 1.0
    """Gradient clipping threshold (L2 norm)."""
    tokens: int = 16_384
    """Padded tokens per forward and backward pass. Bounds memory; results differ by rounding."""
    reset_optimizer: bool = False
    """Reset the optimizer's state at each step (Kimi k1.5, arXiv 2501.12599)."""
    save_every: int = 50
    """Steps between checkpoints; the last step is always saved."""
    save_rollouts: int = 0
    """Trajectories per step to keep in the run's folder with tokens, masks, log-probabilities and
    advantages (``rl.run_folder``), for ``searchgym view``."""
    agreement: float | None = None
    """Difference, in nats per token, that one token in a hundred may exceed between the trainer's
    log-probabilities and those of a generator with weights of its own (vLLM); None chooses by
    precision (``rl.diagnostics``)."""
    seed: int = 0
    """Seed of tasks, sampling order and minibatches."""

    def __post_init__(self) -> None:
        for name in ("steps", "tasks", "epochs", "minibatches", "tokens", "save_every"):
            check_whole(name, getattr(self, name), 1)
        for name in ("save_rollouts", "seed"):
            check_whole(name, getattr(self, name), 0)
        checked_switch("reset_optimizer", self.reset_optimizer)
        check_number("lr", self.lr, 0, above=True)
        check_number("muon_lr", self.muon_lr, 0)
        if not (_may_be_infinite(self.max_norm) and self.max_norm > 0):
            raise CardError(f"max_norm must be a number above 0, got {self.max_norm!r}")
        least = self.agreement
        if least is not None and not (_may_be_infinite(least) and least > 0):
            raise CardError(f"agreement must be a number above 0 or None, got {least!r}")

    @classmethod
    def of(cls, recipe: Recipe, **changes: Any) -> TrainConfig:
        """Build the recipe's options with ``changes``.

        Raises:
            CardError: an unknown option, or a value that cannot be.
        """
        options, known = {**recipe.train, **changes}, [field.name for field in fields(cls)]
        check_known("training option", known, *options)
        return cls(**options)

    @classmethod
    def given(cls, config: TrainConfig | None, recipe: Recipe) -> TrainConfig:
        """Return the options that a training was given; without any, the recipe's.

        Raises:
            CardError: it is something else, such as a table.
        """
        if config is None:
            return cls.of(recipe)
        if not isinstance(config, cls):
            options = "(…)" if not isinstance(config, Mapping) else "(**options)"
            raise CardError(
                f"config must be a TrainConfig, got {type(config).__name__}: {config!r:.80}; "
                f"write TrainConfig{options}"
            )
        return config


def _may_be_infinite(value: object) -> bool:
    return is_number(value) or value == math.inf
