"""How many tokens a device holds."""

from __future__ import annotations

import pytest
import torch

from searchgym.llms.caches import LEAST, token_bytes, tokens_that_fit
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies import TrainableLM
from tests.llms import tiny
from tests.pretend import pretending, put

WORDS = tiny.tokenizer()


def test_bytes_of_a_token() -> None:
    """SmolLM2-135M: 30 layers of 3 heads of 64 keys and as many values, of 2 bytes each."""
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3
    )
    assert token_bytes(config, 2) == 2 * 30 * 3 * 64 * 2 == 23_040
    assert token_bytes(object(), 2) == 0


def test_a_gpu_holds_more(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model(num_hidden_layers=1)  # 2 · 2 heads · 32 · 4 bytes: 512 a token
    assert tokens_that_fit(model, 0.5) == LEAST
    with pretending(monkeypatch):  # of 1 GiB
        put(model)
        assert tokens_that_fit(model, 0.5) == 2**29 // 512
        assert tokens_that_fit(model, 1e-6) == LEAST
        policy = TrainableLM(model, WORDS).policy("plain")
        fifth = int(0.2 * 2**30) // 512
        assert policy.generator.batch_tokens == fifth  # type: ignore[attr-defined]
        assert policy.generator.batch_size == 1024  # type: ignore[attr-defined]
        assert policy.generator.prefixes.tokens == fifth  # type: ignore[attr-defined]
        own = TransformersGenerator(model, WORDS, batch_tokens=100, reuse_tokens=7)
        assert own.batch_tokens == 100


def test_a_model_of_unknown_shape_gets_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model()
    with pretending(monkeypatch):
        put(model)
        monkeypatch.setattr(type(model.config), "num_hidden_layers", None, raising=False)
        monkeypatch.setitem(model.config.__dict__, "num_hidden_layers", None)
        assert tokens_that_fit(model, 0.5) == LEAST


def test_a_seed_leaves_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.manual_seed`` would seed every GPU, which nothing sets back."""
    from searchgym.llms.small import small_model

    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("seeded a GPU"))
    small_model(WORDS, width=16)
