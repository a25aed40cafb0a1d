"""Low-rank adapters of a model in training."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..errors import EngineError, MissingExtraError
from ..llms.adapters import plain_name


class Lora(NamedTuple):
    """Low-rank adapters (Hu et al., arXiv 2106.09685), without dropout, so that the policy that
    samples is the one that is trained."""

    rank: int = 16
    alpha: int = 32
    """Adapters are scaled by ``alpha / rank``."""
    targets: str | tuple[str, ...] = "all-linear"
    """Names of the layers that get adapters; ``"all-linear"``: all but the output layer."""


_KERNELS_READ = re.compile(r".*\.(dt_proj|(mamba|mixer)\.out_proj)")


def _read_by_kernels(model: Any) -> list[str]:
    """Return the names of the layers whose weights a state-space kernel reads past their
    ``forward``: an adapter around one would change nothing."""
    return [name for name, _ in model.named_modules() if _KERNELS_READ.fullmatch(name)]


def add_adapters(model: Any, lora: Lora, seed: int) -> Any:
    """Add adapters to the layers of ``model`` in place; returns PEFT's wrapper around it. Global
    random number generators are left alone."""
    if not isinstance(lora, Lora):
        raise EngineError(f"lora must be a Lora such as Lora(rank=16), got {lora!r:.80}")
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("LoRA", "lora") from error
    import torch

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = peft.LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM",
        exclude_modules=_read_by_kernels(model) or None,
    )  # fmt: skip
    device = model.device
    # the model's own GPU and no other: each that is touched is started, at some 400 MB
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        try:
            return peft.get_peft_model(model, config)
        except ValueError as error:
            raise EngineError(f"adapters cannot be added: {error}") from error


def tied_names(model: Any) -> list[list[str]]:
    """Groups of names, as in the checkpoint, that share one tensor."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, value in model.state_dict().items():
        local = value.to_local() if hasattr(value, "to_local") else value  # a shard (FSDP2)
        if local.numel():
            key = (local.device, local.data_ptr(), local.shape)
            groups.setdefault(key, []).append(plain_name(name))
    return [names for names in groups.values() if len(names) > 1]
