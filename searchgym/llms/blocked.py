"""Causal attention in blocks of queries, for training on CPUs.

PyTorch's fused attention computes at a fraction of the speed of its matrix products on a CPU, and
the plain form multiplies with the half of the keys that the mask then hides. Here each block of
queries meets the keys up to its own end only, by matrix products whose results stay in the cache.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
