"""Plans of training runs: plain values from the command line, kept beside the run as JSON."""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.rules import EXECUTOR
from ..errors import CardError, DataError, MissingExtraError, check_known, unknown
from ..evaluation.machine import note_machine
from ..llms.models import is_here, resolve
from ..objects import check_options, check_whole
from ..policies.model_folder import read_note, require_renderer, sampling_of
from ..storage.files import read_json, write_whole
from ..utils.trust import check_sources, named_sources, registered_only
from .critics import check_critic_table
from .diagnostics import require_members_that_differ
from .log import CHECKPOINT, LOG, Log
from .recipe import DEFAULTS, SEVERAL, Recipe, TrainConfig, read
from .recipe import TABLES as OF_RECIPE
from .roles import check_roles
from .run_folder import FREE
from .slots.records import FROZEN, SHARED, OwnWeights
from .slots.registry import REGISTRY

if TYPE_CHECKING:
    from ..envs.mixture import EnvironmentMix
    from ..envs.search import SearchEnv
    from ..policies.causal_lm import CausalLMPolicy
    from ..policies.trainable import TrainableLM
    from .trainer import Trainer

PLAN = "run.json"
MODEL = "model"
"""Subfolder of a run for the trained model."""
TABLES = (*REGISTRY, *OF_RECIPE, "load")
"""Tables that ``--set TABLE.KEY=VALUE`` may change: a recipe's slots and training options, the
environment's, the policy's sampling, the critic's, how the reference moves, and how the model is
loaded."""
OF_RUN = ("teacher", "roles", "lora", "dtype", "device", "renderer")
"""Fields of a plan that ``--set`` may fill: ``lora.rank=16``, ``device=cpu``."""
LORA = ("rank", "alpha", "targets")
FIXED = ("path", "whole", "model", "tokenizer", "lora", "reference", "device", "dtype", "seed")
"""Arguments of ``TrainableLM`` that follow from the rest of a plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Complete description of a run as JSON values.

    Raises:
        CardError: an unknown or impossible option, or a method that compares members of a group
            with groups of one or at temperature 0.
    """

    recipe: str
    """Name of the recipe, for display; ``table`` counts."""
    table: Mapping[str, Any]
    """The recipe with its changes."""
    model: str
    """Folder, of a model or a PEFT adapter, name of ``searchgym models``, or hub name."""
    env: Any = "SearchQA-v0"
    """An environment's id, or a list of entries (:func:`searchgym.envs.mixture`)."""
    env_options: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the recipe's ``train`` table: steps, lr, seed, …"""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    critic: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``TrainableLM``: gradient_checkpointing, tokens, …"""
    teacher: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role → a model, as ``model``, which stays as it is and answers greedily; ``"shared"``: the
    model in training; ``"own:MODEL"``, or ``"own"`` for a copy of ``model``: trained by an
    optimizer of its own. ``{"policy": "frozen"}``: only such roles are trained."""
    lora: Mapping[str, Any] | None = None
    """Options of ``Lora``: rank, alpha, targets; None trains all weights."""
    dtype: str = "auto"
    """auto: float32 for weights that are trained, else the checkpoint's. In half precision most
    updates round to nothing."""
    device: str = "auto"
    renderer: str | Mapping[str, Any] = "auto"
    """Prompt format: plain, bare, names, chat, an import path, or a table with options; auto: as
    the model's folder notes, else chat where the tokenizer has a template."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Import path → digest of the source code, of the parts that are not registered."""

    def __post_init__(self) -> None:
        require_renderer(self.renderer)
        if not isinstance(self.env, str | list | dict):
            raise CardError(f"env is an id or a list of entries, got {self.env!r:.80}")
        for name in self.load:
            if name in FIXED:
                raise CardError(f"load.{name} is no option of loading: the plan says it elsewhere")
        check_known("LoRA option", LORA, *(self.lora or ()))
        for name in ("rank", "alpha"):
            check_whole(f"LoRA's {name}", (self.lora or {}).get(name, 1), 1)
        targets = (self.lora or {}).get("targets", ())
        if not isinstance(targets, str | list | tuple) or not all(
            isinstance(t, str) for t in targets
        ):
            raise CardError(f"LoRA's targets are layers' names, q_proj,v_proj; got {targets!r:.80}")
        _check_load_options(self.load)
        sampling = sampling_of(self.sampling)
        recipe = Recipe.of(self.table)
        TrainConfig.of(recipe, **self.train)
        check_critic_table(self.critic)
        if recipe.reference and self.lora is not None:
            raise CardError(
                f"recipe {self.recipe!r} moves its reference; that of adapters is the model "
                "without them, which stands still: leave -s lora.… out"
            )
        require_members_that_differ(recipe, sampling)
        if recipe.needs("teacher_logp") != (self.teacher is not None):
            raise CardError(
                f"recipe {self.recipe!r} learns from no teacher: leave -s teacher=… out"
                if self.teacher is not None
                else f"recipe {self.recipe!r} learns from a teacher: add -s teacher=MODEL"
            )
        check_roles(recipe, self.roles, None, _handed(self.env, self.env_options))

    @classmethod
    def of(cls, recipe: str, model: str, changes: Mapping[str, Any], **values: Any) -> Plan:
        """Make a plan from a recipe's name or path and nested changes by table.

        Raises:
            CardError: an unknown recipe, table or option; the nearest names are given.
        """
        check_known("table of --set", TABLES + OF_RUN, *changes)
        table = read(recipe)
        for slot in REGISTRY:
            if slot in changes:
                table = {
                    **table,
                    slot: changed(slot, table.get(slot, DEFAULTS.get(slot)), changes[slot]),
                }
        if moved := _table("reference", changes):
            table = {**table, "reference": {**table.get("reference", {}), **moved}}
        if "critic" in changes and not Recipe.of(table).needs("value"):
            raise CardError(f"recipe {recipe!r} reads no critic: leave out -s critic.…")
        rest: dict[str, Any] = {"load": _table("load", changes)}
        for name in ("critic", "sampling"):
            rest[name] = {**table.get(name, {}), **_table(name, changes)}
        train = {**_table("train", changes), **values.pop("train", {})}
        own = changes.get("env", {})
        if not isinstance(own, Mapping):
            values["env"], own = own if isinstance(own, list) else [own], {}
        env_options = {**table.get("env", {}), **own}
        values |= {name: _of_run(name, changes) for name in OF_RUN if name in changes}
        return cls(recipe, table, model, train=train, env_options=env_options, **rest, **values)

    @property
    def seed(self) -> int:
        return int(self.train.get("seed", 0))

    # --- on disk --------------------------------------------------------------------------------
    def save(self, out: str | os.PathLike[str]) -> None:
        """Write the plan into a run's folder."""
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        values = asdict(self) | {"sources": named_sources(asdict(self))}
        write_whole(out / PLAN, json.dumps(values, indent=1))

    @classmethod
    def load_from(cls, out: str | os.PathLike[str], *, trust: bool = False) -> Plan:
        """Read the plan of the run in ``out``.

        Raises:
            DataError: there is none.
            CardError: it names code by import path, and is not trusted; or it is, and the code is
                not what it was.
        """
        out = Path(out)
        values = _values(out)
        try:
            with registered_only(out / PLAN, trust=trust, sources=values.get("sources", {})):
                return cls(**values)
        except (ValueError, TypeError) as error:
            raise DataError(f"{out / PLAN} cannot be read: {error}") from error

    def agree(self, out: str | os.PathLike[str]) -> None:
        """``DataError`` if ``out`` holds another run. Steps, device and saving may differ; a run
        that ended before its first step holds nothing."""
        out = Path(out)
        if not (out / PLAN).exists() or not begun(out):
            return
        other = _values(out)  # compared, not made: it may name code
        check_sources(other.get("sources", {}), out / PLAN)
        mine, theirs = _comparable(asdict(self)), _comparable(other)
        differ = [name for name in mine if mine[name] != theirs.get(name)]
        if differ:
            raise DataError(
                f"{out} holds a run with other settings ({', '.join(differ)}): use another --out, "
                f"or go on with that run by 'searchgym train --resume --out {out}'"
            )

    def extended(self, steps: int | None) -> Plan:
        """Copy the plan with another last step."""
        return self if steps is None else replace(self, train={**self.train, "steps": steps})


def _values(out: Path) -> dict[str, Any]:
    """A run's plan as its file has it; ``DataError`` if there is none."""
    try:
        values = read_json(out / PLAN)
    except FileNotFoundError:
        raise DataError(
            f"{out} holds no run to resume: start one with 'searchgym train grpo --model MODEL "
            f"--out {out}'"
        ) from None
    if not isinstance(values, dict):
        raise DataError(f"{out / PLAN} cannot be read: a table was expected")
    for name, said in ((f.name, str(f.type)) for f in fields(Plan)):
        kind = dict if said.startswith("Mapping") else str if said == "str" else object
        optional = said.endswith("None") and values.get(name) is None
        if name in values and not optional and not isinstance(values[name], kind):
            raise DataError(
                f"{out / PLAN} cannot be read: {name} is a {'text' if kind is str else 'table'}, "
                f"got {values[name]!r:.80}"
            )
    return values


def begun(out: Path) -> bool:
    """Check whether a step of the run in ``out`` was finished or saved."""
    return (out / CHECKPOINT).exists() or Log(out / LOG).row(0) is not None


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    free = {"device", "recipe", "sources"}
    kept = {name: value for name, value in values.items() if name not in free}
    if not kept.get("roles"):  # older runs have none
        kept.pop("roles", None)
    kept["train"] = {k: v for k, v in values.get("train", {}).items() if k not in FREE}
    comparable: dict[str, Any] = json.loads(json.dumps(kept))
    return comparable


def _table(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    table = changes.get(name, {})
    if not isinstance(table, Mapping):
        raise CardError(f"--set {name}.KEY=VALUE changes one option; {name} itself is a table")
    return dict(table)


def _of_run(name: str, changes: Mapping[str, Any]) -> Any:
    """The value of one of :data:`OF_RUN`."""
    value = changes[name]
    if name not in ("roles", "lora"):
        return value if name == "renderer" and isinstance(value, Mapping) else str(value)
    table = _table(name, changes)
    if isinstance(targets := table.get("targets"), str) and targets != "all-linear":
        table["targets"] = [part.strip() for part in targets.split(",") if part.strip()]
    return {key: str(who) for key, who in table.items()} if name == "roles" else table


def changed(slot: str, old: Any, new: Any) -> Any:
    """Change options of a slot's entry: ``{"clip_high": 0.28}`` over ``"ppo"`` or its table.

    Where the slot holds several, the option's first part says which, by name or index:
    ``{"kl": {"weight": 0.01}}``, ``{"1": {"weight": 0.01}}``. What is no table replaces the entry.
    """
    if not isinstance(new, Mapping) or "use" in new:
        return new
    entries = old if isinstance(old, list) else [old]
    if slot not in SEVERAL or len(entries) == 1:
        if entries[0] is None:
            raise CardError(
                f"the recipe leaves {slot!r} out: say which, --set '{slot}={{\"use\": NAME, …}}'"
            )
        return _merged(entries[0], new)
    entries = list(entries)
    names = [e if isinstance(e, str) else str(e.get("use")) for e in entries]
    for key, value in new.items():
        where = names.index(key) if key in names else int(key) if key.isdecimal() else -1
        if not 0 <= where < len(entries) or not isinstance(value, Mapping):
            raise CardError(
                f"{slot} has several parts, {', '.join(names)}: --set {slot}.{names[0]}.OPTION="
                f"VALUE, got {slot}.{key}"
            )
        entries[where] = _merged(entries[where], value)
    return entries


def _merged(entry: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    return {**({"use": entry} if isinstance(entry, str) else entry), **new}


def config_of(plan: Plan) -> TrainConfig:
    """Build and check the plan's training options before anything is loaded.

    Raises:
        CardError: an unknown option, an impossible value, or a folder that holds no model.
    """
    others = (_own(who, plan.model) or who for who in plan.roles.values() if who not in WORDS)
    for model in filter(None, (plan.model, plan.teacher, *others)):
        if is_here(model):
            continue
        path = Path(model)
        local = path.is_absolute() or model.startswith(".") or model.endswith("/") or path.is_dir()
        if local:
            raise CardError(
                f"{model} holds no model (no config.json): give a folder that transformers or PEFT "
                "wrote, a name of 'searchgym models' or a hub name like "
                "Qwen/Qwen2.5-0.5B-Instruct"
            )
    return TrainConfig.of(Recipe.of(plan.table), **plan.train)


def build(plan: Plan, env: SearchEnv | EnvironmentMix, out: str | os.PathLike[str]) -> Trainer:
    """Build the trainer of a plan, resumed where an interrupted run stopped. Of several processes
    (``torchrun``) each has one, with the whole model; they share its gradients, and the main one
    writes.

    Raises:
        EngineError: the model cannot be loaded.
        DataError: ``out`` holds another run, or another training is writing it.
        MissingExtraError: torch, transformers, peft or accelerate is missing.
    """
    try:
        from ..policies.trainable import Lora, TrainableLM
        from .critics import make_critic
        from .processes import Processes, SingleProcess, launched
        from .trainer import Trainer
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    _check_load(plan.dtype, plan.device)
    out = Path(out)
    plan.agree(out)
    recipe, config = Recipe.of(plan.table), config_of(plan)
    if launched() > 1 and ":" in plan.device:
        raise CardError(
            f"each of {launched()} processes takes a GPU of its own: -s device=cuda, got "
            f"{plan.device!r}"
        )
    # before any model is loaded, so that it comes to its process's GPU
    processes = Processes(cpu=plan.device == "cpu") if launched() > 1 else SingleProcess()

    def loaded(path: str, *, whole: bool, **options: Any) -> TrainableLM:
        """``whole``: all of its weights are trained."""
        dtype = "float32" if whole and plan.dtype == "auto" else plan.dtype
        return TrainableLM(path, device=plan.device, dtype=dtype, seed=config.seed, **options)

    lora = None if plan.lora is None else _lora(Lora, plan.lora)
    reference = recipe.needs("ref_logp")
    note = read_note(Path(resolve(plan.model)))
    options = {"freeze": note.get("freeze", ()) if lora is None else (), **plan.load}

    def trained(path: str) -> tuple[TrainableLM, CausalLMPolicy]:
        made = loaded(path, whole=lora is None, lora=lora, reference=reference, **options)
        sampling = sampling_of(plan.sampling)
        return made, made.policy(plan.renderer, sampling=sampling, seed=config.seed)

    lm, policy = trained(plan.model)
    critic = None
    if recipe.needs("value"):
        body = lm if lora is None else loaded(plan.model, whole=True)
        critic = make_critic(plan.critic, body, lr=config.lr * 10)
    teacher = None if plan.teacher is None else loaded(plan.teacher, whole=False)
    if teacher is not None and teacher.tokenizer.get_vocab() != lm.tokenizer.get_vocab():
        raise CardError(
            f"{plan.teacher} and {plan.model} have different tokenizers, so the teacher cannot "
            "read the student's token ids: take a teacher of the same family"
        )
    greedy = sampling_of(plan.sampling)._replace(temperature=0.0)
    roles: dict[str, Any] = dict(plan.roles)
    for role, who in plan.roles.items():
        if (own := _own(who, plan.model)) is not None:
            roles[role] = OwnWeights(*trained(own))
        elif who not in WORDS:
            roles[role] = loaded(who, whole=False).policy(sampling=greedy, seed=config.seed)
    trainer = Trainer(
        env, lm, recipe, config, policy=policy,
        teacher=teacher, critic=critic, roles=roles, processes=processes, out=out,
    )  # fmt: skip
    if processes.main:
        with trainer.locked():  # what was refused until here has not taken the folder
            plan.agree(out)
            plan.save(out)
            note_machine(out)
    return trainer


WORDS = (SHARED, FROZEN)


def _own(who: str, model: str) -> str | None:
    """The model of weights of a role's own; None where it has none."""
    named, _, path = who.partition(":")
    return (path or model) if named == "own" else None


def _handed(env: Any, options: Mapping[str, Any]) -> list[str] | None:
    """Roles to which sub-tasks are handed, as far as a plan says; None if it does not."""
    delegate = options.get("delegate")
    if isinstance(delegate, Mapping):
        return sorted(delegate)
    return [EXECUTOR] if delegate else [] if isinstance(env, str) else None


def _check_load_options(options: Mapping[str, Any]) -> None:
    """``CardError`` for a value that ``TrainableLM`` refuses, or a name that is nearly one of its
    options; others are for transformers, whose own depend on the model."""
    from ..policies.trainable import TrainableLM

    own = set(inspect.signature(TrainableLM).parameters) - {*FIXED, "options"}
    for name in options.keys() - own - {"token", "revision"}:
        if difflib.get_close_matches(name, own, n=1, cutoff=0.75):
            raise CardError(unknown("option of load", name, own))
    check_options("the table load", TrainableLM, options, complete=False)


def _check_load(dtype: str, device: str) -> None:
    """``CardError`` for a dtype or a device that there is none of, before anything is fetched."""
    import torch

    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise CardError(f"dtype is auto, float32, bfloat16 or another of torch, got {dtype!r}")
    try:
        torch.device("cpu" if device == "auto" else device)
    except RuntimeError as error:
        raise CardError(f"device is auto, cpu, cuda or cuda:N, got {device!r}") from error


def _lora(kind: Any, options: Mapping[str, Any]) -> Any:
    """Adapters of a plan; ``alpha`` is twice the rank unless it is given."""
    rank = options.get("rank", 16)
    targets = options.get("targets", "all-linear")
    return kind(
        rank=rank,
        alpha=options.get("alpha", 2 * rank),
        targets=targets if isinstance(targets, str) else tuple(targets),
    )
