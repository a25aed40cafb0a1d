"""Caches of rows that come and go: joined and trimmed layer by layer.

Keys and values of full attention are padded on the left, where the mask hides them; the states of
convolutions and recurrences have one size whatever the text's length and are simply put together.
How many tokens fit follows from the device: a GPU reads hundreds of rows as fast as one.
"""

from __future__ import annotations

from typing import Any

from ..errors import EngineError

LEAST = 65_536
"""Tokens whose keys and values are held at least, and on CPUs at most, unless told otherwise."""


def tokens_that_fit(model: Any, share: float) -> int:
    """Number of tokens whose keys and values fill a share of the memory of the model's GPU; at
    least :data:`LEAST`, which is also the number on other devices and where the shape of the cache
    is unknown."""
    if model.device.type != "cuda":
        return LEAST
    import torch

    size = token_bytes(model.config, model.dtype.itemsize)
    memory = torch.cuda.get_device_properties(model.device).total_memory
    return max(LEAST, int(share * memory) // size) if size else LEAST


def token_bytes(config: Any, itemsize: int) -> int:
    """Bytes of a token's keys and values in all layers, of numbers of ``itemsize`` bytes; 0 if the
    configuration does not tell."""
    heads = getattr(config, "num_attention_heads", 0) or 0
    few = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None)
    width = width or (getattr(config, "hidden_size", 0) or 0) // max(heads, 1)
    return 2 * (getattr(config, "num_hidden_layers", 0) or 0) * few * width * itemsize


def join(mine: Any, theirs: Any, pad_mine: int, pad_theirs: int) -> None:
    """Put the rows of ``theirs`` behind those of ``mine``, after so many columns of padding on the
    left of either. ``EngineError`` for a cache that cannot be padded (a sliding window's)."""
    import torch
    from torch.nn.functional import pad

    for a, b in zip(mine.layers, theirs.layers, strict=True):
        kind = _kind(a)
        if kind != "state":
            a.keys = torch.cat(
                [pad(a.keys, (0, 0, pad_mine, 0)), pad(b.keys, (0, 0, pad_theirs, 0))]
            )
            a.values = torch.cat(
                [pad(a.values, (0, 0, pad_mine, 0)), pad(b.values, (0, 0, pad_theirs, 0))]
            )
        if kind != "attention":
            for own, new in (
                (a.conv_states, b.conv_states),
                (a.recurrent_states, b.recurrent_states),
            ):
                for i, state in own.items():
                    if state is not None:
                        own[i] = torch.cat([state, new[i]])


def trim(cache: Any, columns: int) -> None:
    """Drop so many columns on the left, which are padding in every row."""
    for layer in cache.layers:
        if _kind(layer) != "state":
            layer.keys = layer.keys[..., columns:, :]
            layer.values = layer.values[..., columns:, :]


def _kind(layer: Any) -> str:
    """attention | state | both"""
    from transformers import cache_utils as known

    kinds: dict[Any, str] = {
        known.DynamicLayer: "attention",
        known.LinearAttentionLayer: "state",
        known.LinearAttentionAndFullAttentionLayer: "both",
    }
    if type(layer) not in kinds:
        raise EngineError(
            f"rows of a model with {type(layer).__name__} cannot join others while they are "
            "written: use batches (CausalLMPolicy.sample)"
        )
    return kinds[type(layer)]
