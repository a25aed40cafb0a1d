"""Sums, maxima and log-probabilities over runs of neighbouring rows, with gradients. Imports torch.

PyTorch's ``index_add``, ``scatter_reduce`` and the gradient of indexing take twenty times as long
on a CPU (most of a training run), because they do not know that the rows of a segment are
neighbours. All of this is exact, deterministic, and for the CPU.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


class Segments:
    """Runs of neighbouring rows, none of them empty.

    Args:
        state: (N,) the segment of each row: 0 … ``count`` - 1 in ascending order.
        count: number of segments S.
    """

    def __init__(self, state: Tensor, count: int) -> None:
        self.state = state
        self.sizes = torch.bincount(state, minlength=count)

    def sum(self, rows: Tensor) -> Tensor:
        """(S, …) sums of (N, …) rows."""
        return cast(Tensor, _Sum.apply(rows, self))

    def top(self, rows: Tensor) -> Tensor:
        """(S, …) largest values of (N, …) rows."""
        return cast(Tensor, _Top.apply(rows, self))

    def spread(self, values: Tensor) -> Tensor:
        """(N, …) each segment's (S, …) value at all of its rows."""
        return cast(Tensor, _Spread.apply(values, self))

    def log_softmax(self, logits: Tensor) -> Tensor:
        """(N, …) log-probabilities within each segment."""
        shifted = logits - self.spread(self.top(logits.detach()))
        return shifted - self.spread(self.sum(shifted.exp()).log())


def _reduce(kind: str, rows: Tensor, segments: Segments) -> Tensor:
    rows = rows.detach().contiguous()
    return torch.segment_reduce(rows, kind, lengths=segments.sizes, axis=0, unsafe=True)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        return _reduce("sum", rows, segments)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[ctx.segments.state], None


class _Top(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, segments: Segments) -> Tensor:
        top = _reduce("max", rows, segments)
        ctx.segments = segments
        ctx.save_for_backward(rows == top[segments.state])
        return top

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (largest,) = ctx.saved_tensors
        return gradient[ctx.segments.state] * largest, None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        return values[segments.state]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _reduce("sum", gradient, ctx.segments), None
