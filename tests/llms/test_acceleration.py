"""Half precision where it pays; attention in blocks and compiled layers, which compute the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import scaled_dot_product_attention as fused

from searchgym.errors import EngineError
from searchgym.llms import acceleration, causal
from searchgym.llms.acceleration import (
    NAME,
    block_attention,
    blocked,
    compile_layers,
    fast_dtype,
    training_dtype,
)
from searchgym.llms.sft import SftConfig, SftTrainer
from searchgym.llms.sft_data import Example
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies import TrainableLM
from searchgym.seeding import stream
from tests.llms import tiny


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


@pytest.mark.parametrize(
    ("heads", "few", "length", "block"), [(6, 2, 50, 16), (4, 4, 33, 64), (3, 1, 64, 8)]
)
def test_it_is_the_fused_attention(heads: int, few: int, length: int, block: int) -> None:
    torch.manual_seed(length)
    query = torch.randn(2, heads, length, 8, dtype=torch.double, requires_grad=True)
    key, value = (
        torch.randn(2, few, length, 8, dtype=torch.double, requires_grad=True) for _ in range(2)
    )
    ours = blocked(query * 8**-0.5, key, value, block)
    theirs = fused(query, key, value, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weight).sum(), (query, key, value))
    others = torch.autograd.grad((theirs * weight).sum(), (query, key, value))
    torch.testing.assert_close(mine, others)


def test_a_model_gives_the_same_logits_and_gradients() -> None:
    model = tiny.model("llama").double()
    ids = torch.arange(2 * 150).reshape(2, 150) % 390
    mask = torch.ones_like(ids)
    mask[0, :20] = 0

    def asked() -> list[torch.Tensor]:
        model.zero_grad()
        plain = model(input_ids=ids, use_cache=False).logits
        plain.square().mean().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        masked = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        with torch.no_grad():
            read = model(input_ids=ids, use_cache=False).logits
        return [plain.detach(), masked.detach()[:, 20:], read, *grads]

    before = asked()
    assert block_attention(model)
    assert model.config._attn_implementation == NAME
    torch.testing.assert_close(before, asked(), rtol=1e-9, atol=1e-9)


def test_models_that_attend_otherwise_stay_as_they_are() -> None:
    model = tiny.model("llama")
    model.set_attn_implementation("eager")
    assert not block_attention(model)
    assert not block_attention(tiny.model("lfm2"))  # some of its layers are convolutions


def made(layers: int = 3) -> Any:
    """A small Llama with random weights."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def trained(model: Any, steps: int = 4) -> list[float]:
    """Losses of a few supervised updates on rows of many lengths."""
    draw = stream(0, "rows")
    rows = [Example(draw.integers(300, size=n), np.arange(n) >= n // 2) for n in range(20, 60)]
    config = SftConfig(steps=steps, batch=7, lr=1e-3, muon_lr=0.0, tokens=200)
    trainer = SftTrainer(model, rows, config)
    return [trainer.advance().loss for _ in range(steps)]


def test_losses_are_those_of_the_plain_model_and_one_compilation_serves_all_layers() -> None:
    plain = trained(made())
    counters.clear()
    model = made()
    assert compile_layers(model, backend="eager") == 3
    assert trained(model) == pytest.approx(plain, rel=1e-4)
    assert 1 <= counters["stats"]["unique_graphs"] <= 2  # fewer than layers; one row is special


def test_passes_without_gradients_are_not_compiled() -> None:
    model = made()
    compile_layers(model, backend="eager")
    counters.clear()
    with torch.no_grad():
        model(input_ids=torch.ones(2, 5, dtype=torch.long))
    assert counters["stats"]["unique_graphs"] == 0


def test_a_model_without_layers_and_checkpointed_ones_are_refused() -> None:
    with pytest.raises(EngineError, match="does not say which of its modules are layers"):
        compile_layers(torch.nn.Linear(2, 2))
    model = made()
    model.gradient_checkpointing_enable()
    with pytest.raises(EngineError, match="give compile or gradient_checkpointing, not both"):
        compile_layers(model)


def test_weights_are_saved_and_copied_as_ever(tmp_path: Any) -> None:
    model = made()
    compile_layers(model, backend="eager")
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert all(
        torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True)
    )


def test_a_copy_computes_with_its_own_weights() -> None:
    """As the body of a critic must."""
    model, ids = made(), torch.ones(2, 5, dtype=torch.long)
    compile_layers(model, backend="eager")
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for p in copied.parameters():
            p.zero_()
    assert not copied(input_ids=ids).logits.any()
    copied(input_ids=ids).logits.sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert model(input_ids=ids).logits.any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_losses_are_those_of_the_plain_model() -> None:
    plain = trained(made().to("cuda"))
    model = made().to("cuda")
    compile_layers(model)
    assert trained(model) == pytest.approx(plain, rel=1e-3)


def test_a_model_in_training_compiles_its_layers_when_told() -> None:
    from searchgym.llms.small import train_tokenizer

    model = made(2)
    before = type(model.model.layers[0])
    tokenizer = train_tokenizer(["a few words to learn from"] * 4, 280)
    TrainableLM(model, tokenizer, compile=True)
    assert type(model.model.layers[0]) is not before
