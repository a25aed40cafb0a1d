"""LoRA adapters in PEFT folders: recognising, loading and merging them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, EngineError, MissingExtraError
from ..storage.checkpoint import full_tensor
from ..storage.files import read_json

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_WRAPPED = re.compile(r"(?:\.base_layer)+\.")
"""Part of a weight's name that PEFT's layers add, once for each layer around another."""

FIELDS = (
    "r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules", "target_parameters",
    "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "modules_to_save",
    "bias", "lora_bias", "fan_in_fan_out", "use_rslora", "use_dora", "init_lora_weights",
    "task_type", "inference_mode", "base_model_name_or_path", "revision",
)  # fmt: skip
"""Settings of an adapter that are taken from its folder: where its matrices belong and how they are
scaled. PEFT has others that name modules and files, which it would import and read."""


def is_adapter(folder: str | os.PathLike[str]) -> bool:
    """Check whether a folder holds a PEFT adapter instead of a whole model."""
    return (Path(folder) / CONFIG).is_file() and not (Path(folder) / "config.json").is_file()


def is_model(folder: str | os.PathLike[str]) -> bool:
    """Check whether a folder holds a model that transformers wrote, or an adapter of one."""
    return (Path(folder) / "config.json").is_file() or is_adapter(folder)


def base_of(folder: str | os.PathLike[str]) -> str:
    """Folder or hub name of the model that an adapter belongs to.

    Raises:
        EngineError: the adapter is no LoRA adapter in safetensors, or does not name its model.
    """
    folder = Path(folder)
    config = _config(folder)
    if (kind := config.get("peft_type")) != "LORA":
        raise EngineError(f"{folder} holds a {kind} adapter; only LORA adapters can be merged")
    if not (folder / WEIGHTS).is_file():
        raise EngineError(f"{folder} holds no {WEIGHTS}; adapters are read from safetensors only")
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise EngineError(f"{folder / CONFIG} does not name its model (base_model_name_or_path)")
    beside = folder / base
    base = str(beside) if not Path(base).is_dir() and beside.is_dir() else base
    if is_adapter(base):
        raise EngineError(f"{folder} is an adapter of the adapter {base}; merge that one first")
    return base


def _config(folder: Path) -> Mapping[str, Any]:
    """An adapter's settings as its folder has them; ``EngineError`` if they cannot be read."""
    try:
        config = read_json(folder / CONFIG)
    except (FileNotFoundError, DataError) as error:
        raise EngineError(str(error)) from error
    if not isinstance(config, dict):
        raise EngineError(f"{folder / CONFIG} holds no JSON object")
    return config


def require_one(folder: str | os.PathLike[str]) -> None:
    """``EngineError`` for a folder that holds a model and an adapter beside it: transformers would
    load the adapter, too, with all that its settings name."""
    if (Path(folder) / "config.json").is_file() and (Path(folder) / CONFIG).is_file():
        raise EngineError(
            f"{folder} holds a model (config.json) and an adapter ({CONFIG}): which of them is "
            "meant? Move one of the two elsewhere"
        )


def _plain(peft: Any, folder: Path) -> Any:
    """PEFT's settings of an adapter, of :data:`FIELDS` alone.

    Raises:
        EngineError: the folder sets others to anything but their defaults.
    """
    given, usual = _config(folder), peft.LoraConfig()
    known = {name: value for name, value in given.items() if name in FIELDS}
    for name, value in given.items():
        if name in (*FIELDS, "peft_type", "peft_version", "auto_mapping") or not value:
            continue
        if value != getattr(usual, name, None):
            raise EngineError(
                f"{folder / CONFIG} sets {name!r}, which is not taken from a folder: adapters are "
                f"matrices beside a model's own; known: {', '.join(FIELDS)}"
            )
    return peft.LoraConfig(**known)


def merge_adapter(model: Any, folder: str | os.PathLike[str]) -> Any:
    """Add an adapter's weights into a model, in place; returns the plain model.

    Raises:
        EngineError: the adapter does not fit the model.
        MissingExtraError: peft is missing.
    """
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("a LoRA adapter", "lora") from error
    from safetensors import safe_open

    try:
        plain = _plain(peft, Path(folder))
        adapted = peft.PeftModel.from_pretrained(model, os.fspath(folder), config=plain)
        with safe_open(str(Path(folder) / WEIGHTS), framework="pt") as file:
            written = {name for name in file.keys() if ".lora_" in name}  # noqa: SIM118
        fits = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
        require_all(written ^ {name for name in fits if ".lora_" in name})
        merged = adapted.merge_and_unload()
    except (ValueError, RuntimeError, KeyError, OSError, TypeError) as error:
        raise EngineError(f"the adapter in {folder} does not fit its model: {error}") from error
    merged.requires_grad_(True)  # PEFT froze it
    merged.merged_adapter = str(folder)
    return merged


def require_all(*names: Collection[str]) -> None:
    """``ValueError`` that says which weights a file lacks, or has for no place: those of either
    would be random, or lost, without a word."""
    wrong = sorted({name for some in names for name in some})
    if wrong:
        raise ValueError(
            "weights and model do not fit; missing or unknown: "
            + ", ".join(wrong[:5])
            + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        )


def plain_name(name: str) -> str:
    """A parameter's name without the layers of adapters around it."""
    return _WRAPPED.sub(".", name)


def with_adapters(model: Any, name: str, value: Tensor) -> Tensor:
    """The value of the parameter ``name`` of an adapted model with what its adapters add to it: to
    a layer's ``weight``, or to the parameter that a layer names (a mixture's experts, which lie in
    one tensor)."""
    for wrapped in _WRAPPED.finditer(name):
        for depth in range(wrapped[0].count("base_layer")):
            layer = model.get_submodule(name[: wrapped.start()] + ".base_layer" * depth)
            if name[wrapped.end() :] == getattr(layer, "parameter_name", "weight"):
                value = value + full_tensor(layer.get_delta_weight("default")).to(value.dtype)
    return value
