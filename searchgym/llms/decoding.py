"""Decoding steps whose keys and values are written in place and which a GPU replays as one graph.

A cache that grows is copied whole for each token. Here every row has a slot with room for the
tokens to come. On CUDA the second step is recorded, and from then on the thousand small kernels of
a small model start with one call, which takes a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from .acceleration import NAME
from .caches import Past, gathered, stacked

WIDE = 64
"""Columns come in multiples of it: a graph lasts for so many tokens."""
FEW = 32
"""Rows among which a GPU gains nothing from fewer."""
ATTENTION = {"sdpa", NAME}
"""Names of attention whose masks are added to the scores."""


class _Place:
    """Place where a step writes, and what it sees: all that layers know of their slots, which they
    must not hold themselves (memory in circles is freed late)."""

    def __init__(self, rows: int, column: Tensor) -> None:
        self.rows, self.column, self.seen = rows, column, 0


class _Layer(DynamicLayer):
    """Keys and values (slots, heads, columns, width) of one layer."""

    keys: Tensor
    values: Tensor

    def __init__(self, place: _Place, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.place, self.keys, self.values = place, keys, values
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        rows, seen = self.place.rows, []
        for held, new in ((self.keys, key_states), (self.values, value_states)):
            held[:rows].index_copy_(2, self.place.column, new)
            seen.append(held[:rows, :, : self.place.seen])
        return seen[0], seen[1]


class Slots:
    """Rows of a growing cache, moved into slots with room for ``room`` more tokens.

    Args:
        model: The causal LM; see :func:`possible`.
        cache: Its cache of B rows; its layers are emptied.
        mask: (B, C) 1 where a row has a token, 0 where it has padding.
        name: The argument by which the model takes a cache.
        room: At least one.
    """

    def __init__(self, model: Any, cache: Any, mask: Tensor, name: str, room: int) -> None:
        self.model, self._name = model, name
        device = mask.device
        rows, self._width = mask.shape
        columns = -(-(self._width + room) // WIDE) * WIDE
        self._live = list(range(rows))
        self._mask = mask.new_zeros(rows, columns, dtype=torch.bool)
        self._mask[:, : self._width] = mask > 0
        self._next = mask.sum(1)
        self._alive = torch.ones_like(self._next)
        self._which = torch.arange(rows, device=device)
        self._ids = torch.zeros_like(self._next)
        self._place = _Place(rows, torch.tensor([self._width], device=device))
        self._whole, self._held = _moved(cache.layers, columns)
        pairs = zip(self._held[::2], self._held[1::2], strict=True)
        self._cache = Cache(layers=[_Layer(self._place, keys, values) for keys, values in pairs])
        self._records = _recordable(model)
        self._graph: Any = None
        self._warm = False
        self._logits: Tensor

    @property
    def full(self) -> bool:
        """True if no room is left."""
        return self._width == self._mask.shape[1]

    def step(self, ids: Tensor) -> Tensor:
        """Append one token (B,) to every row; logits (B, V) of the next."""
        self._width += 1
        self._see(-(-self._width // WIDE) * WIDE if self._records else self._width)
        self._ids.index_copy_(0, self._which, ids)
        if self._graph is None and self._records and self._warm:
            self._record()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._logits = self._forward()
            self._warm = True
        return self._logits[self._which]

    def keep(self, which: Tensor) -> None:
        """Go on with these rows only, in this order; none may come twice."""
        self._live = [self._live[i] for i in which.tolist()]
        rows = self._place.rows
        enough = len(self._live) > rows / 2 or rows <= FEW
        if not (enough if self._records else len(self._live) > 0.75 * rows):
            self._close_ranks()
        self._which = torch.tensor(self._live, device=self._mask.device)
        self._alive = self._alive.zero_()
        self._alive[self._which] = 1

    def past(self, row: int) -> Past:
        """The keys and values of a row, without its padding."""
        slot = self._live[row]
        if self._whole is None:
            return gathered(self._cache.layers, self._mask[slot], slot)
        columns = self._mask[slot].nonzero()[:, 0]
        return stacked(self._whole[:, slot].index_select(2, columns))

    def grown(self) -> tuple[Any, Tensor]:
        """The rows as a growing cache and its (B, C) mask."""
        cache = DynamicCache()
        own = [held[self._which, :, : self._width] for held in self._held]
        for i, (keys, values) in enumerate(zip(own[::2], own[1::2], strict=True)):
            cache.update(keys, values, i)
        return cache, self._mask[self._which, : self._width].long()

    def _see(self, columns: int) -> None:
        """Let attention see so many columns."""
        if columns != self._place.seen:
            self._place.seen, self._graph = columns, None

    def _forward(self) -> Tensor:
        self._mask.index_fill_(1, self._place.column, True)
        shown = self._mask[:, : self._place.seen]
        bias = torch.zeros_like(shown, dtype=self.model.dtype)
        bias = bias.masked_fill_(~shown, -torch.inf)[:, None, None]
        extra = {self._name: self._cache, "position_ids": self._next[:, None]}
        out = self.model(input_ids=self._ids[:, None], attention_mask=bias, use_cache=True, **extra)
        self._next += self._alive
        self._place.column += 1
        logits: Tensor = out.logits[:, -1]
        return logits

    def _record(self) -> None:
        """Record a step, which does not make it."""
        here = torch.cuda.current_stream()
        aside = torch.cuda.Stream()
        aside.wait_stream(here)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(aside):
            # other threads may go on using the device
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._logits = self._forward()
            finally:
                graph.capture_end()
        here.wait_stream(aside)
        self._graph = graph

    def _close_ranks(self) -> None:
        """Move rows from the last slots into free ones, and forget the slots behind them."""
        self._graph = None
        count, used = len(self._live), set(self._live)
        free = [slot for slot in range(count) if slot not in used]
        moved = [slot for slot in self._live if slot >= count]
        to = torch.tensor(free, dtype=torch.long, device=self._mask.device)
        of = torch.tensor(moved, dtype=torch.long, device=self._mask.device)
        for tensor in (*self._held, self._mask, self._next):
            tensor[to] = tensor[of]
        where = dict(zip(moved, free, strict=True))
        self._live = [where.get(slot, slot) for slot in self._live]
        self._place.rows = count
        self._mask, self._next = self._mask[:count], self._next[:count]
        self._alive, self._ids = self._alive[:count], self._ids[:count]


def _moved(layers: Any, columns: int) -> tuple[Tensor | None, list[Tensor]]:
    """Keys and values of all layers by turns, widened to so many columns; on GPUs, where they are
    alike, also as one tensor (2 layers, rows, heads, columns, width). The layers are emptied."""
    kinds = {(t.shape, t.dtype) for layer in layers for t in (layer.keys, layer.values)}
    whole: Tensor | None = None
    some = layers[0].keys
    # one kernel then takes a row out, not one a layer; on CPUs it would only take memory twice
    if len(kinds) == 1 and some.device.type == "cuda":
        rows, heads, _, width = some.shape
        whole = some.new_zeros(2 * len(layers), rows, heads, columns, width)
    moved: list[Tensor] = []
    for layer in layers:
        for held in (layer.keys, layer.values):
            rows, heads, used, width = held.shape
            # zeros: what the mask hides is multiplied with 0, so that it must not be infinite
            wider = (
                held.new_zeros(rows, heads, columns, width) if whole is None else whole[len(moved)]
            )
            wider[:, :, :used] = held
            moved.append(wider)
        layer.keys = layer.values = None
    return whole, moved


def possible(model: Any, takes: Collection[str], cache: Any) -> bool:
    """True if a model's rows can be moved into slots: all that it keeps are the keys and values of
    full attention, which it computes as transformers' other models do, from positions given."""
    plain = all(type(layer) is DynamicLayer for layer in getattr(cache, "layers", [None]))
    common = getattr(model, "_supports_attention_backend", False)
    kind = getattr(model.config, "_attn_implementation", None)
    return plain and common and kind in ATTENTION and "position_ids" in takes


def _recordable(model: Any) -> bool:
    """True if a step of the model can become a CUDA graph: nothing in it depends on a number that
    the processor must see, and all of its weights are on one GPU."""
    whole = not any(hasattr(p, "to_local") for p in model.parameters())  # shards (FSDP2)
    spread = len(set(getattr(model, "hf_device_map", {}).values())) > 1
    graph = getattr(model, "_can_compile_fullgraph", False)
    there = model.device.type == "cuda" and torch.cuda.is_available()
    return bool(there and graph and whole and not spread and not routed(model.config))


def routed(config: Any) -> bool:
    """True if a model has experts: which of them a token goes to decides what is computed, and some
    of their kernels ask the processor."""
    return any("expert" in name for name in config.to_dict())
