"""Faster passes of a transformers model: the dtype of matrix products, causal attention in blocks
of queries for training on CPUs, and compiled layers.

PyTorch's fused attention computes at a fraction of the speed of its matrix products on a CPU, and
the plain form multiplies with the half of the keys that the mask then hides. In blocks, each block
of queries meets the keys up to its own end only, by products whose results stay in the cache.

A layer normalises, rotates and gates between its matrix products, and each of these operations
reads and writes all activations. Compiled, neighbours are done in one pass over memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor

from ..errors import EngineError

WIDENED = 2_000_000_000
"""Parameters up to which half precision becomes float32 on a CPU without instructions for it: such
a model then takes at most 8 GB, and reads a prompt several times as fast."""


def fast_dtype(known: Mapping[str, Any] | None = None) -> torch.dtype:
    """bfloat16 where the processor gains by it, else float32.

    It follows from the processor alone, not from a clock: the same machine always gives the same
    weights. Tile instructions (AMX) gain, and so do AVX-512's on AMD's processors. On Intel's
    without tiles those run on half of the units, and a training step of the reader takes 1.6 times
    as long as in float32; emulated it takes longer still.

    Args:
        known: Features of a CPU, in the form of ``torch.cpu.get_capabilities``; default: this
            one's.
    """
    if known is None:
        ask = getattr(torch.cpu, "get_capabilities", dict)  # not in every PyTorch
        known = ask()
    intel = str(known.get("cpu_name", "")).startswith("Intel")
    gains = known.get("amx_bf16") or (known.get("avx512_bf16") and not intel)
    return torch.bfloat16 if gains else torch.float32


def training_dtype(device: Any) -> torch.dtype:
    """Dtype of the matrix products of training on a device: bfloat16 on accelerators, on a CPU that
    of :func:`fast_dtype`."""
    return fast_dtype() if torch.device(device).type == "cpu" else torch.bfloat16


def widened(model: Any) -> Any:
    """Return a transformers model to read and write with: in float32 if it is on a CPU that only
    emulates its half precision and has at most :data:`WIDENED` parameters, else as it is."""
    half = model.dtype in (torch.bfloat16, torch.float16)
    emulated = half and model.device.type == "cpu" and fast_dtype() != model.dtype
    return model.float() if emulated and model.num_parameters() <= WIDENED else model


NAME = "searchgym_blocked"
BLOCK = 128
"""Queries of a block."""


def block_attention(model: Any) -> bool:
    """Make a model of transformers attend in blocks wherever no mask is given; says whether it can.
    It is the same function up to rounding. Other calls (padding, caches) stay as they were."""
    try:
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError:
        return False
    if model.device.type != "cpu" or model.config._attn_implementation != "sdpa":
        return False
    kinds = set(getattr(model.config, "layer_types", None) or ())
    if getattr(model.config, "sliding_window", None) or kinds - {"full_attention"}:
        return False

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any = None,
        scaling: float | None = None, dropout: float = 0.0, **rest: Any,
    ) -> tuple[Tensor, None]:  # fmt: skip
        whole = query.shape[2] == key.shape[2] and query.shape[2] > 1
        if attention_mask is not None or dropout or not whole or not torch.is_grad_enabled():
            result: tuple[Tensor, None] = sdpa_attention_forward(
                module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **rest
            )
            return result
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return blocked(query * scale, key, value).transpose(1, 2).contiguous(), None

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return True


def blocked(query: Tensor, key: Tensor, value: Tensor, block: int = BLOCK) -> Tensor:
    """(B, H, T, D) causal attention of scaled queries; ``key`` and ``value`` (B, K, T, D) may have
    fewer heads, each of which serves H / K neighbouring ones."""
    batch, heads, length, size = query.shape
    few = key.shape[1]
    query = query.unflatten(1, (few, heads // few))
    parts = []
    for start in range(0, length, block):
        end = min(start + block, length)
        count = end - start
        rows = query[:, :, :, start:end].reshape(batch, few, -1, size)
        scores = (rows @ key[:, :, :end].mT).unflatten(2, (-1, count))
        ahead = scores.new_full((count, count), -torch.inf).triu(1)
        own = scores[..., start:] + ahead
        scores = torch.cat([scores[..., :start], own], -1) if start else own
        heard = scores.softmax(-1).flatten(2, 3).to(value.dtype) @ value[:, :, :end]
        parts.append(heard.unflatten(2, (-1, count)).flatten(1, 2))
    return torch.cat(parts, 2)


def compile_layers(model: Any, backend: str = "inductor") -> int:
    """Compile the layers of a model of transformers in place; return how many there are.

    They are compiled at the first forward pass with gradients, for all numbers of rows and tokens
    at once. Passes without gradients stay as they were: there sampling keeps keys and values.

    Args:
        model: A causal LM.
        backend: A backend of ``torch.compile``.

    Raises:
        EngineError: the model does not say which of its modules are layers, or checkpoints its
            activations.
    """
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in kinds]
    if not layers:
        raise EngineError(
            f"{type(model).__name__} does not say which of its modules are layers "
            "(_no_split_modules), so they cannot be compiled: leave compile out"
        )
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        raise EngineError(
            "layers whose activations are computed twice are not compiled: give compile or "
            "gradient_checkpointing, not both"
        )
    for layer in layers:
        kind: Any = type(layer)
        layer.__class__ = _compiled(kind, backend)
    return len(layers)


@cache
def _compiled(kind: Any, backend: str) -> Any:
    """A subclass, not a method of each layer, so that a copy of a layer computes with its own
    weights."""
    import torch

    fast = torch.compile(kind.forward, dynamic=True, backend=backend)

    @wraps(kind.forward)
    def forward(self: Any, *args: Any, **options: Any) -> Any:
        return (fast if torch.is_grad_enabled() else kind.forward)(self, *args, **options)

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
