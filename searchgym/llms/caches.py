"""Keys and values of texts that a model has read: the next turn reads only what is new.

Reuse is exact: a text is reused only whole, as the beginning of a prompt, under the same weights,
and only by models whose whole state is the keys and values of full attention. Others (a
convolution's state cannot be padded, a sliding window's has lost its beginning) read again.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .base import Ids

if TYPE_CHECKING:
    from torch import Tensor


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


class Past(NamedTuple):
    """Cache of a model's first ``length`` tokens: per layer keys and values, each
    (heads, length, width)."""

    length: int
    layers: tuple[tuple[Tensor, Tensor], ...]
    whole: Tensor | None = None
    """The same as one tensor (2 layers, heads, length, width), where all are alike."""


class Prefixes:
    """Pasts by their tokens, at most ``tokens`` tokens in all; the ones unused for longest go."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.reused = 0
        """Tokens that were not read again, since construction."""
        self._kept: OrderedDict[bytes, Past] = OrderedDict()
        self._lengths: Counter[int] = Counter()
        self._held = 0
        self._state: Any = None

    def __len__(self) -> int:
        return len(self._kept)

    def belong_to(self, state: Any) -> None:
        """Forget everything unless it was made by weights in this state."""
        if state != self._state:
            self.clear()
            self._state = state

    def clear(self) -> None:
        """Forget everything, and free what it took."""
        self._kept.clear()
        self._lengths.clear()
        self._held = 0

    def find(self, prompt: Ids) -> Past | None:
        """The longest past of a proper beginning of ``prompt``."""
        longest: bytes | None = None
        for digest in _digests(prompt, [n for n in self._lengths if n < len(prompt)]):
            longest = digest if digest in self._kept else longest
        if longest is None:
            return None
        self._kept.move_to_end(longest)
        self.reused += self._kept[longest].length
        return self._kept[longest]

    def put(self, ids: Ids, past: Past) -> None:
        """Keep the past of ``ids``."""
        (digest,) = _digests(ids, [past.length])
        if digest in self._kept or past.length > self.tokens:
            return
        self._kept[digest] = past
        self._lengths[past.length] += 1
        self._held += past.length
        while self._held > self.tokens:
            _, gone = self._kept.popitem(last=False)
            self._held -= gone.length
            self._lengths[gone.length] -= 1
            if not self._lengths[gone.length]:
                del self._lengths[gone.length]


def _digests(ids: Ids, lengths: Sequence[int]) -> list[bytes]:
    """Digests of the beginnings of these lengths, shortest first: one pass over the ids."""
    raw = np.asarray(ids, np.int64).tobytes()
    hashed, at = hashlib.blake2b(digest_size=16), 0
    digests = []
    for length in sorted(lengths):
        hashed.update(raw[8 * at : 8 * length])
        at = length
        digests.append(hashed.digest())
    return digests


def joined(pasts: Sequence[Past | None]) -> tuple[Any, Tensor]:
    """One cache of B pasts, right-aligned, and its (B, C) mask. At least one is not ``None``."""
    import torch
    from transformers import DynamicCache

    some = next(p for p in pasts if p is not None)
    width = max(p.length for p in pasts if p is not None)
    cache: Any = DynamicCache()
    parts: Iterator[Tensor]
    if all(p is None or p.whole is not None for p in pasts):  # one copy a row
        parts = iter(_aligned([p.whole if p else None for p in pasts], width).unbind(1))
    else:
        parts = (
            _aligned([p.layers[layer][which] if p else None for p in pasts], width)
            for layer in range(len(some.layers))
            for which in (0, 1)
        )
    for layer in range(len(some.layers)):
        cache.update(next(parts), next(parts), layer)
    mask = torch.zeros(len(pasts), width, dtype=torch.int64, device=some.layers[0][0].device)
    for row, past in enumerate(pasts):
        if past is not None:
            mask[row, width - past.length :] = 1
    return cache, mask


def _aligned(parts: Sequence[Tensor | None], width: int) -> Tensor:
    """Tensors (…, length, size) side by side, right-aligned: (B, …, width, size); zeros for
    ``None``."""
    like = next(part for part in parts if part is not None)
    whole = like.new_zeros(len(parts), *like.shape[:-2], width, like.shape[-1])
    for row, part in enumerate(parts):
        if part is not None:
            whole[row, ..., width - part.shape[-2] :, :] = part
    return whole


def extract(cache: Any, mask: Tensor, row: int) -> Past | None:
    """The past of one row of a running batch, without its padding; ``None`` if the model's state is
    more than keys and values."""
    from transformers.cache_utils import DynamicLayer

    for layer in cache.layers:
        if type(layer) is not DynamicLayer or not layer.is_initialized:
            return None
        if layer.keys is None or layer.values is None or layer.keys.shape[-2] != mask.shape[1]:
            return None
    return gathered(cache.layers, mask[row], row)


def gathered(layers: Sequence[Any], mask: Tensor, row: int) -> Past:
    """The past of a row of these layers in the columns where its ``mask`` (C,) is not 0."""
    columns = mask.nonzero()[:, 0]  # (c,)
    kept = ((layer.keys[row][:, columns], layer.values[row][:, columns]) for layer in layers)
    return Past(len(columns), tuple(kept))


def stacked(whole: Tensor) -> Past:
    """The past whose keys and values, by turns, are ``whole`` (2 layers, heads, length, width)."""
    parts = whole.unbind()
    return Past(whole.shape[2], tuple(zip(parts[::2], parts[1::2], strict=True)), whole)
