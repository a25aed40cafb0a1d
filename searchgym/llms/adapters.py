"""LoRA adapters in PEFT folders: recognising, loading and merging them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import EngineError, MissingExtraError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


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
    try:
        adapted = peft.PeftModel.from_pretrained(model, os.fspath(folder))
        merged = adapted.merge_and_unload()
    except (ValueError, RuntimeError, KeyError, OSError, TypeError) as error:
        raise EngineError(f"the adapter in {folder} does not fit its model: {error}") from error
    merged.requires_grad_(True)  # PEFT froze it
    merged.merged_adapter = str(folder)
    return merged
