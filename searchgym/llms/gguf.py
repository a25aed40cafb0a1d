"""Model files in GGUF form as plain folders: the weights, no longer quantised, in bfloat16."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

from ..errors import EngineError, MissingExtraError
from .adapters import require_all


def to_folder(file: Path, folder: Path) -> Path:
    """Write the model of a GGUF file as a folder of safetensors, with its tokenizer and chat
    template; returns the folder.

    Raises:
        EngineError: the file cannot be read.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError("reading a GGUF file", "gguf")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a transformers language model", "llm") from error
    named = {"gguf_file": file.name, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **named)
        read, info = AutoModelForCausalLM.from_pretrained(
            str(file.parent), dtype=torch.float32, output_loading_info=True, **named
        )
        require_all(info["missing_keys"], info["unexpected_keys"])
    # what transformers raises for a file that it cannot read varies
    except (OSError, ValueError, RuntimeError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"{file} cannot be read as a GGUF model: {error}") from error
    config = copy.deepcopy(read.config)
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    # transformers saves no model that it has read from GGUF, so the weights go into a fresh one
    plain: Any = type(read)(config)
    plain.load_state_dict(read.state_dict(), strict=True)
    plain.tie_weights()
    plain.generation_config = read.generation_config
    plain.bfloat16().save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
