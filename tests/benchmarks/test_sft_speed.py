"""An update of supervised training beside a bare forward and backward pass of the same rows, at the
shape of SmolLM2-135M (random weights: nothing is downloaded).

One thread, and its processor time: what a quiet machine's clock would say, on any machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from searchgym.llms import SftConfig, SftTrainer, block_attention, fast_dtype, padded, sft
from searchgym.utils.hardware import one_thread
from tests.benchmarks.gpu.updates import LENGTHS, Row, rows
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark

FROZEN = 12
TOKENS, ROUNDS, GOAL = 3200, 3, 0.85
CHOSEN = (2, 6)
"""Rows of 520 and 760 tokens: as many in hundred are padding, 16, as in a batch of all eight, which
takes twenty minutes. What an update costs however few its tokens weighs four times as much here."""


def batch() -> list[Row]:
    every = rows(len(LENGTHS), 49_000)
    return [every[place] for place in CHOSEN]


SIZE = sum(LENGTHS[place] for place in CHOSEN)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield


def model(dtype: torch.dtype, frozen: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
            tie_word_embeddings=True,
        )
    ).to(dtype)  # fmt: skip
    if frozen:
        made.model.embed_tokens.requires_grad_(False)
        for layer in made.model.layers[:frozen]:
            layer.requires_grad_(False)
    return made.train()


def bare(made: Any) -> None:
    """Forward and backward, all logits, the plain mean loss."""
    for part in sft._parts(batch(), TOKENS):
        ids, own, _ = padded(part)
        logits = made(input_ids=ids, use_cache=False).logits[:, :-1]
        goal = ids[:, 1:].masked_fill(~own[:, 1:], -100)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), goal.flatten()).backward()
    made.zero_grad(set_to_none=True)


def update(frozen: int, dtype: torch.dtype) -> Callable[[], object]:
    made = model(torch.float32, frozen)
    assert block_attention(made)
    config = SftConfig(
        steps=10_000, batch=len(CHOSEN), tokens=TOKENS, prompt_weight=0.0, muon_lr=0.0, lr=1e-5
    )
    return SftTrainer(made, batch(), config, dtype).advance


@pytest.mark.parametrize("frozen", [FROZEN, 0])
def test_an_update_beside_a_bare_pass(frozen: int) -> None:
    """The ratio of tokens per second, optimizer step included; the bare pass has none."""
    fast = fast_dtype()
    halves = model(torch.bfloat16, frozen)
    ways = {
        "bare bfloat16 pass": lambda: bare(halves),
        f"update, {str(fast).removeprefix('torch.')}": update(frozen, fast),
    }
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for round_ in range(ROUNDS + 1):
        for way, run in ways.items():
            start = time.process_time()
            run()
            if round_:
                spent[way].append(time.process_time() - start)
    first, last = ways
    ratios = {
        way: [a / b for a, b in zip(spent[first], times, strict=True)]
        for way, times in spent.items()
    }
    show(
        f"SFT update of {len(CHOSEN)} rows, {SIZE:,} tokens, {frozen} layers frozen",
        ("way", "tokens/s", "ratio", "least", "most"),
        [
            (way, SIZE / statistics.median(spent[way]), statistics.median(ratios[way]),
             min(ratios[way]), max(ratios[way]))
            for way in ways
        ],
    )  # fmt: skip
    assert statistics.median(ratios[last]) >= GOAL
