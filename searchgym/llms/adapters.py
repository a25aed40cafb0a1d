"""LoRA adapters in PEFT folders: recognising, loading and merging them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, MissingExtraError
from ..utils.state_file import full_tensor

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_WRAPPED = re.compile(r"(?:\.base_layer)+\.")
"""What PEFT's layers put into the names of what they hold, once for each layer around another."""


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
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder / CONFIG} cannot be read: {error}") from error
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
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
        adapted = peft.PeftModel.from_pretrained(model, os.fspath(folder))
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
