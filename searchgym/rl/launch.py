"""From what a person says to a running trainer: a plan of plain values, kept beside the run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CardError, DataError, MissingExtraError, unknown
from ..evaluation.machine import note_machine
from ..llms.base import Sampling
from ..objects import bare_hint
from ..policies.causal_lm import RENDERERS as KNOWN_RENDERERS
from ..policies.causal_lm import CausalLMPolicy
from ..policies.note import read_note, save_note
from ..trust import check_sources, named_sources, registered_only
from .recipe import DEFAULTS, SEVERAL, Recipe, read
from .recipe import TABLES as OF_RECIPE
from .settings import FREE
from .slots.registry import REGISTRY

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from .trainer import TrainConfig, Trainer

PLAN = "run.json"
MODEL = "model"
"""Folder of the trained model within a run's."""
TABLES = (*REGISTRY, *OF_RECIPE, "load")
"""What ``--set TABLE.KEY=VALUE`` may change: a recipe's slots and training options, the
environment's, the policy's sampling, the critic's, and how the model is loaded."""
RENDERERS = ("auto", *KNOWN_RENDERERS)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run is made of, as JSON values. ``CardError`` for what cannot be."""

    recipe: str
    """Its name, for people; ``table`` counts."""
    table: Mapping[str, Any]
    """The recipe with its changes."""
    model: str
    """A folder or hub name."""
    env: str = "SearchQA-v0"
    env_options: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    """Over the recipe's ``train`` table: steps, lr, seed, …"""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    critic: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``TrainableLM``: gradient_checkpointing, tokens, …"""
    teacher: str | None = None
    lora: int | None = None
    """Rank of adapters; None: all weights are trained."""
    dtype: str = "auto"
    """auto: float32 for weights that are trained, else the checkpoint's. In half precision most
    updates round to nothing."""
    device: str = "auto"
    renderer: str = "auto"
    """plain | bare | chat; auto: as the model's folder notes, else chat where the tokenizer has a
    template."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Import path → digest of the source code, of the parts that are not registered."""

    def __post_init__(self) -> None:
        if self.renderer not in RENDERERS:
            raise CardError(unknown("renderer", self.renderer, RENDERERS))
        if self.lora is not None and self.lora < 1:
            raise CardError(f"the rank of adapters must be at least 1, got {self.lora}")
        known = {*Sampling._fields}
        for name in self.sampling:
            if name not in known:
                raise CardError(unknown("sampling option", name, known))
        made = Recipe.of(self.table)
        if made.needs("teacher_logp") and self.teacher is None:
            raise CardError(f"recipe {self.recipe!r} learns from a teacher: add --teacher MODEL")

    @classmethod
    def of(cls, recipe: str, model: str, changes: Mapping[str, Any], **values: Any) -> Plan:
        """From a recipe's name or path and nested changes by table.

        Raises:
            CardError: an unknown recipe, table or option; the nearest names are given.
        """
        for name in changes:
            if name not in TABLES:
                raise CardError(unknown("table of --set", str(name), TABLES))
        table = read(recipe)
        for slot in REGISTRY:
            if slot in changes:
                table = {
                    **table,
                    slot: changed(slot, table.get(slot, DEFAULTS.get(slot)), changes[slot]),
                }
        rest: dict[str, Any] = {"load": _table("load", changes)}
        for name in ("critic", "sampling"):
            rest[name] = {**table.get(name, {}), **_table(name, changes)}
        train = {**_table("train", changes), **values.pop("train", {})}
        env_options = {**table.get("env", {}), **_table("env", changes)}
        return cls(recipe, table, model, train=train, env_options=env_options, **rest, **values)

    @property
    def seed(self) -> int:
        return int(self.train.get("seed", 0))

    # --- on disk --------------------------------------------------------------------------------
    def save(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        partial = out / f"{PLAN}.part"
        values = asdict(self) | {"sources": named_sources(asdict(self))}
        partial.write_text(json.dumps(values, indent=1), encoding="utf-8")
        os.replace(partial, out / PLAN)

    @classmethod
    def load_from(cls, out: Path, *, trust: bool = False) -> Plan:
        """The plan of the run in ``out``.

        Raises:
            DataError: there is none.
            CardError: it names code by import path, and is not trusted; or it is, and the code is
                not what it was.
        """
        values = _values(out)
        try:
            with registered_only(out / PLAN, trust=trust, sources=values.get("sources", {})):
                return cls(**values)
        except (ValueError, TypeError) as error:
            raise DataError(f"{out / PLAN} cannot be read: {error}") from error

    def agree(self, out: Path) -> None:
        """``DataError`` if ``out`` holds another run. More steps, another device and other saving
        may be asked for."""
        if not (out / PLAN).exists():
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
        """The same run with another last step."""
        return self if steps is None else replace(self, train={**self.train, "steps": steps})


def _values(out: Path) -> dict[str, Any]:
    """A run's plan as its file has it; ``DataError`` if there is none."""
    try:
        values = json.loads((out / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{out} holds no run to resume: start one with 'searchgym train grpo --model MODEL "
            f"--out {out}'"
        ) from None
    except ValueError as error:
        raise DataError(f"{out / PLAN} cannot be read: {error}") from error
    tables = ("sources", "train")
    if not isinstance(values, dict) or not all(
        isinstance(values.get(name, {}), dict) for name in tables
    ):
        raise DataError(f"{out / PLAN} cannot be read: a table was expected")
    return values


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    free = {"device", "recipe", "sources"}
    kept = {name: value for name, value in values.items() if name not in free}
    kept["train"] = {k: v for k, v in values.get("train", {}).items() if k not in FREE}
    found: dict[str, Any] = json.loads(json.dumps(kept))
    return found


def _table(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    found = changes.get(name, {})
    if not isinstance(found, Mapping):
        raise CardError(f"--set {name}.KEY=VALUE changes one option; {name} itself is a table")
    return dict(found)


def changed(slot: str, old: Any, new: Any) -> Any:
    """A slot's entry with options changed: ``{"clip_high": 0.28}`` over ``"ppo"`` or its table.

    Where the slot holds several, the option's first part says which, by name or place:
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
    """What the plan says to the trainer, checked before anything is loaded.

    Raises:
        CardError: an unknown option, an impossible value, or a folder that holds no model.
        MissingExtraError: torch is missing.
    """
    try:
        from .trainer import TrainConfig
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    recipe, known = Recipe.of(plan.table), {f.name for f in fields(TrainConfig)}
    for name in (*recipe.train, *plan.train):
        if name not in known:
            raise CardError(unknown("training option", name, known))
    for model in filter(None, (plan.model, plan.teacher)):
        path = Path(model)
        if hint := bare_hint(model):
            raise CardError(f"{model!r} is a hub's name{hint}")
        local = path.is_absolute() or model.startswith(".") or path.is_dir()
        if local and not (path / "config.json").is_file():
            raise CardError(
                f"{model} holds no model (no config.json): give a folder that transformers wrote, "
                "or a hub name like Qwen/Qwen2.5-0.5B-Instruct"
            )
    return TrainConfig.of(recipe, **plan.train)


def build(plan: Plan, env: SearchEnv, out: Path) -> Trainer:
    """The trainer of a plan, put back where an interrupted run stopped. Of several processes
    (``torchrun``) each has one, with the whole model; they share its gradients, and the main one
    writes.

    Raises:
        EngineError: the model cannot be loaded.
        DataError: ``out`` holds another run.
        MissingExtraError: torch, transformers, peft or accelerate is missing.
    """
    try:
        from ..policies.trainable import Lora, TrainableLM
        from .critic import Critic
        from .processes import Alone, Processes, launched
        from .trainer import Trainer
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    plan.agree(out)
    recipe, config = Recipe.of(plan.table), config_of(plan)
    if launched() > 1 and ":" in plan.device:
        raise CardError(
            f"each of {launched()} processes takes a GPU of its own: --device cuda, got "
            f"{plan.device!r}"
        )
    # before any model is loaded, so that it comes to its process's GPU
    processes = Processes(cpu=plan.device == "cpu") if launched() > 1 else Alone()

    def loaded(path: str, *, whole: bool, **options: Any) -> TrainableLM:
        """``whole``: all of its weights are trained."""
        dtype = "float32" if whole and plan.dtype == "auto" else plan.dtype
        return TrainableLM(path, device=plan.device, dtype=dtype, seed=config.seed, **options)

    lora = None if plan.lora is None else Lora(rank=plan.lora, alpha=2 * plan.lora)
    reference = recipe.needs("ref_logp")
    note = read_note(Path(plan.model))
    options = {"freeze": note.get("freeze", ()) if lora is None else (), **plan.load}
    lm = loaded(plan.model, whole=lora is None, lora=lora, reference=reference, **options)
    renderer = plan.renderer
    if renderer == "auto":
        renderer = note.get("renderer", renderer_for(lm.tokenizer))
    policy = lm.policy(renderer, sampling=sampling_of(plan.sampling), seed=config.seed)
    critic = None
    if recipe.needs("value"):
        body = lm if lora is None else loaded(plan.model, whole=True)
        critic = Critic(body, **{"lr": config.lr * 10, **plan.critic})
    teacher = None if plan.teacher is None else loaded(plan.teacher, whole=False)
    if teacher is not None and teacher.tokenizer.get_vocab() != lm.tokenizer.get_vocab():
        raise CardError(
            f"{plan.teacher} and {plan.model} have different tokenizers, so the teacher cannot "
            "read the student's token ids: take a teacher of the same family"
        )
    made = Trainer(
        env, lm, recipe, config, policy=policy,
        teacher=teacher, critic=critic, processes=processes, out=out,
    )  # fmt: skip
    if processes.main:
        plan.save(out)  # what was refused until here has not taken the folder
        note_machine(out)
    return made


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """``Sampling`` from JSON values."""
    values = dict(options)
    if "stop" in values:
        stop = values["stop"]
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(**values)


def save_model(trainer: Trainer, folder: Path) -> Path:
    """Write the trained model, adapters merged in, and its tokenizer as transformers loads them,
    with a note on how it was asked (:func:`load_policy` reads it)."""
    lm, policy = trainer.lm, trainer.policy
    folder.mkdir(parents=True, exist_ok=True)
    lm.model.save_pretrained(folder, state_dict=lm.merged())
    lm.tokenizer.save_pretrained(folder)
    asked = next(name for name, c in KNOWN_RENDERERS.items() if type(policy.renderer) is c)
    save_note(folder, asked, policy.sampling, lm.freeze)
    return folder


def load_policy(folder: str | Path, *, temperature: float = 0.0, seed: int = 0) -> CausalLMPolicy:
    """The agent of a model's folder, asked as it was trained (else at most 256 tokens a turn, in
    the model's chat form if it has one), greedy unless said otherwise.

    Raises:
        EngineError: nothing can be loaded.
        DataError: the note beside the model cannot be read.
    """
    from ..llms.transformers_generator import TransformersGenerator

    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise DataError(
            f"{folder} holds no model: 'searchgym warmstart --out {folder}' makes a small one, "
            "'searchgym train' trains one"
        )
    generator = TransformersGenerator(str(folder))
    note = read_note(folder)
    sampling = sampling_of(note.get("sampling", {}))._replace(temperature=temperature)
    renderer = note.get("renderer", renderer_for(generator.codec.tokenizer))
    return CausalLMPolicy(generator, renderer, sampling=sampling, seed=seed)


def renderer_for(tokenizer: Any) -> Any:
    """chat where the tokenizer has a template, else plain."""
    return "chat" if getattr(tokenizer, "chat_template", None) else "plain"
