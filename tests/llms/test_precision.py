"""Half precision is taken where it pays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.llms import acceleration, causal
from searchgym.llms.acceleration import fast_dtype, training_dtype
from searchgym.llms.transformers_generator import TransformersGenerator

from . import tiny


@pytest.mark.parametrize(
    ("known", "half"),
    [
        ({"cpu_name": "AMD EPYC 9B14", "avx512_bf16": True, "amx_bf16": False}, True),
        ({"cpu_name": "AMD EPYC 7B13", "avx512_bf16": False, "amx_bf16": False}, False),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": False}, False),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, True),
        ({}, False),
    ],
)
def test_half_precision_where_the_processor_gains_by_it(known: dict[str, Any], half: bool) -> None:
    assert fast_dtype(known) == (torch.bfloat16 if half else torch.float32)


def test_this_processor_always_answers_the_same() -> None:
    assert fast_dtype() == fast_dtype() in (torch.bfloat16, torch.float32)


def test_half_precision_becomes_float32_where_it_is_only_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model's only, only to be asked, and only where no dtype is asked for."""
    model, tokenizer = causal.load(tiny.save(tmp_path / "float32"), "cpu")
    assert model.dtype == torch.float32
    half = str(tmp_path / "half")
    model.bfloat16().save_pretrained(half)
    tokenizer.save_pretrained(half)

    def read(**options: Any) -> torch.dtype:
        return TransformersGenerator(half, device="cpu", **options).model.dtype

    for fast in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(acceleration, "fast_dtype", lambda fast=fast: fast)
        assert read() == fast
        assert read(dtype="bfloat16") == torch.bfloat16
        assert causal.load(half, "cpu")[0].dtype == torch.bfloat16
    monkeypatch.setattr(acceleration, "fast_dtype", lambda: torch.float32)
    monkeypatch.setattr(acceleration, "WIDENED", model.num_parameters() - 1)
    assert read() == torch.bfloat16


def test_training_dtype() -> None:
    assert training_dtype("cuda:1") == training_dtype(torch.device("cuda")) == torch.bfloat16
    assert training_dtype("cpu") == fast_dtype()
