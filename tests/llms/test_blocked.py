"""Attention in blocks is causal attention, forward and backward, and leaves other calls alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from searchgym.llms.acceleration import NAME, block_attention, blocked
from tests.llms import tiny


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
