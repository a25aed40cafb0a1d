"""A method: one object per slot, from a name, a TOML file or a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..curricula import Uniform
from ..envs.search import SearchEnv
from ..errors import CardError, unknown
from ..objects import load_known
from ..policies.model_folder import sampling_of
from ..policies.scoring import TOKEN_MEASURES
from ..scoring.metrics import RL, SOMETIMES
from ..utils.state_file import under
from .critics.registry import check_critic_table
from .data.curriculum import ByCurriculum
from .data.uniform import UniformTasks
from .measures import loss_metrics
from .recipe_files import read, shipped
from .reference import MovingReference
from .slots.protocols import (
    AdvantageEstimator,
    CoefficientSchedule,
    DataPolicy,
    Loss,
    Replay,
    RewardTransform,
    RolloutStrategy,
    Signal,
    SlotObject,
)
from .slots.registry import REGISTRY, SlotName, make
from .slots.samples import loss_statistics

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
    """Times and extent of the reference's moves (:class:`~searchgym.rl.reference.MovingReference`);
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
        for name in table:
            if name not in known:
                raise CardError(unknown("slot", str(name), known))
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

    def parts(self) -> Iterator[tuple[str, SlotObject]]:
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
            if getattr(part, "unsampled", False):
                self.require_sampled(f"{place} ({type(part).__name__}) gives members")
        driven = {"lr", *(loss.name for loss in self.loss)}
        for _, part in self.parts():
            driven |= getattr(part, "reads", frozenset())
        for name in sorted(getattr(self.schedule, "names", ())):
            if name not in driven and not name.startswith("w_"):
                raise CardError(unknown("coefficient of the schedule", name, sorted(driven)))

    def check_watched(self, rewards: Collection[str]) -> None:
        """``CardError`` for a metric that a part reads (``Slot.watches``) and this training does
        not log; ``rewards``: the parts of the environment's reward."""
        watched = [
            (place, part, name)
            for place, part in self.parts()
            for name in sorted(getattr(part, "watches", ()))
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
        return any(getattr(loss, "scales_clip", False) for loss in self.loss)

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

        def own(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(map(own, part))
            return deepcopy(part) if part.state_dict() or hasattr(part, "tensors") else part

        return replace(self, **{slot: own(getattr(self, slot)) for slot in REGISTRY})

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
            if hasattr(part, "tensors")
            for name, value in part.tensors().items()
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        for place, part in self.parts():
            if hasattr(part, "load_tensors"):
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
    """Suggest the registered objects that provide a need."""
    names = []
    for slot, paths in REGISTRY.items():
        for known, path in paths.items():
            if name in getattr(load_known(path), "provides", ()):
                names.append(f"{slot} {known!r}")
    if not names:
        return (
            f"nothing registered always provides {name!r}; signal 'parts' gives parts of the "
            "environment's reward by their names, 'turn_parts' as turn_NAME, or write your own"
        )
    return f"add {' or '.join(names)}, which {'provides' if len(names) == 1 else 'provide'} it"


def under_curriculum(recipe: Recipe, env: SearchEnv) -> tuple[Recipe, SearchEnv]:
    """Hand the curriculum of an environment over to the recipe, which chooses the tasks.

    Raises:
        CardError: the recipe chooses tasks in another way than uniformly.
    """
    curriculum = env.curriculum
    if isinstance(curriculum, Uniform):
        return recipe, env
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
    return replace(recipe, data=ByCurriculum(curriculum), table=table), env


__all__ = ["DEFAULTS", "SEVERAL", "TABLES", "Recipe", "read", "shipped"]
