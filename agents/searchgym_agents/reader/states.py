"""Computes a small model's last hidden states at chosen positions only.

The loss of nine in ten tokens that are merely read is not computed, so their states of the last
layer are not needed, only its keys and values. Its queries, its feed-forward part and the norm
after it are a tenth of a step's time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def states_at(model: Any, embeds: Tensor, asked: Tensor) -> Tensor:
    """(N, width) the last hidden states of an LFM2 whose last layer is one of attention, at the N
    places that are asked for, row after row; up to rounding those of the model's own ``forward``.

    Args:
        model: As :func:`~searchgym.llms.small.small_model` makes it, with eager attention.
        embeds: (B, T, width) what is read; padding on the right.
        asked: (B, T) bool.
    """
    inner, length = model.model, embeds.shape[1]
    turns = inner.rotary_emb(embeds, torch.arange(length, device=embeds.device)[None])
    least = torch.finfo(embeds.dtype).min
    ahead = torch.full((length, length), least, device=embeds.device).triu(1)
    *lower, last = inner.layers
    x = embeds
    for layer in lower:
        mask = ahead[None, None] if layer.is_attention_layer else None
        x = layer(x, position_embeddings=turns, attention_mask=mask)
    count = asked.sum(1)
    real = torch.arange(int(count.max()), device=count.device) < count[:, None]
    places = torch.zeros(real.shape, dtype=torch.long, device=count.device)
    places[real] = asked.nonzero()[:, 1]
    heard = _attended(last.self_attn, last.operator_norm(x), places, turns, ahead)
    x = x[asked] + heard[real]
    return inner.embedding_norm(x + last.feed_forward(last.ffn_norm(x)))


def _attended(
    attention: Any, x: Tensor, places: Tensor, turns: tuple[Tensor, Tensor], ahead: Tensor
) -> Tensor:
    """Attention (B, Q, width) over x (B, T, width) at places (B, Q) of each row."""
    some = x.gather(1, places[..., None].expand(-1, -1, x.shape[2]))
    cos, sin = turns
    q = attention.q_layernorm(_heads(attention, attention.q_proj(some)))
    k = attention.k_layernorm(_heads(attention, attention.k_proj(x)))
    v = _heads(attention, attention.v_proj(x)).transpose(1, 2)
    q = _turned(q, cos[0][places], sin[0][places]).transpose(1, 2)
    k = _turned(k, cos, sin).transpose(1, 2)
    scores = (q * attention.scaling) @ k.mT + ahead[places][:, None]
    heard = scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v
    return attention.out_proj(heard.transpose(1, 2).flatten(2))


def _heads(attention: Any, x: Tensor) -> Tensor:
    """(B, T, heads, size); as many heads of keys as of queries."""
    return x.unflatten(-1, (-1, attention.head_dim))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embeddings (Su et al., arXiv 2104.09864) of x (B, T, heads, size)."""
    low, high = x.chunk(2, dim=-1)
    return x * cos[:, :, None] + torch.cat([-high, low], dim=-1) * sin[:, :, None]
