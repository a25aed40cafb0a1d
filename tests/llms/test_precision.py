"""Half precision is taken where it pays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from searchgym.llms.precision import fast_dtype


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
