"""Dtypes in which a device multiplies matrices fastest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

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
