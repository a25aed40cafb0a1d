"""Compiled layers compute what plain ones do, are compiled once, and refuse what they cannot be."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from searchgym.errors import EngineError
from searchgym.llms.acceleration import compile_layers
from searchgym.llms.sft import SftConfig, SftTrainer
from searchgym.llms.sft_data import Example
from searchgym.policies.trainable import TrainableLM
from searchgym.seeding import stream


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
