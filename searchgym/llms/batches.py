"""Rows that go through a model together: of like length, padded on the right, equal ones once, with
logits at chosen places only."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from .sft_data import Example


class HasIds(Protocol):
    """N tokens."""

    @property
    def ids(self) -> NDArray[np.int64]: ...


Row = TypeVar("Row", bound=HasIds)


def micro_batches(
    lengths: Sequence[int], tokens: int, rows: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """Yield indices of rows that go through the model together: rows of similar length, at most
    ``tokens`` with padding (a longer row goes alone). Every index comes once.

    ``rows``: how many rows of at most that length each index stands for, which stay together.
    """
    if tokens < 1:
        raise EngineError(f"the token budget must be at least 1, got {tokens}")
    part: list[int] = []
    count = 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        more = 1 if rows is None else rows[i]
        if part and lengths[i] * (count + more) > tokens:
            yield part
            part, count = [], 0
        part.append(i)
        count += more
    if part:
        yield part


def distinct(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """Return the first of all rows of equal ids, and the place of each row's equal among them.

    Members of a group often write the same, the more so the surer a policy is; what a model says of
    a row does not depend on the rows beside it, so that it need not be asked twice.
    """
    unique: list[Row] = []
    places: dict[bytes, int] = {}
    index: list[int] = []
    for row in rows:
        place = places.setdefault(row.ids.tobytes(), len(unique))
        if place == len(unique):
            unique.append(row)
        index.append(place)
    return unique, index


def right_padded(model: Any, rows: Sequence[HasIds], pad: int) -> dict[str, Tensor]:
    """Arguments of ``model.forward`` for R rows: ``input_ids``, (R, T), and ``position_ids`` if it
    takes them.

    Padding is on the right, where neither causal attention nor convolution looks, so it needs no
    mask, and attention may take its fast causal path.
    """
    import torch

    width = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
    made = {"input_ids": torch.from_numpy(ids).to(model.device)}
    if "position_ids" in inspect.signature(model.forward).parameters:
        made["position_ids"] = torch.arange(width, device=model.device).expand(len(rows), width)
    return made


def padded(rows: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T) ids, which of them the model is to write, and which are no padding (on the right)."""
    import torch

    shape = (len(rows), max(len(row.ids) for row in rows))
    ids, own = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    real = np.zeros(shape, np.bool_)
    for i, row in enumerate(rows):
        n = len(row.ids)
        ids[i, :n], own[i, :n], real[i, :n] = row.ids, row.own, True
    return torch.from_numpy(ids), torch.from_numpy(own), torch.from_numpy(real)


# Logits of prompt tokens are not needed in training, and with a large vocabulary they cost as much
# as all layers.
def logits_at(model: Any, ids: Tensor, line: Tensor, column: Tensor, **extra: Any) -> Tensor:
    """(N, V) logits of what follows each of N places of ``ids`` (B, T).

    Args:
        model: A causal LM, or its ``DistributedDataParallel`` wrapper.
        line: (N,) rows of the places.
        column: (N,) their columns.
        extra: Further arguments of the model's ``forward``.
    """
    return _asked(model, ids, line, column, extra)[0]


def states_at(
    model: Any, ids: Tensor, line: Tensor, column: Tensor, **extra: Any
) -> tuple[Tensor, Tensor]:
    """Logits (N, V) of :func:`logits_at`, and the (N, H) last hidden states that became them.

    Raises:
        EngineError: the model has no output layer that takes its hidden states.
    """
    logits, states = _asked(model, ids, line, column, extra)
    if states is None:
        raise EngineError(
            f"{type(model).__name__} shows no hidden states: it has no output layer "
            "(get_output_embeddings) that takes them"
        )
    return logits, states


def _asked(
    model: Any, ids: Tensor, line: Tensor, column: Tensor, extra: dict[str, Any]
) -> tuple[Tensor, Tensor | None]:
    inner = getattr(model, "module", model)
    with _gathered(inner, ids.shape, line, column) as gathered:
        logits: Tensor = model(input_ids=ids, use_cache=False, **extra).logits
    return (logits[0], gathered[0]) if gathered else (logits[line, column], None)


@contextmanager
def _gathered(
    model: Any, shape: tuple[int, ...], line: Tensor, column: Tensor
) -> Iterator[list[Tensor]]:
    """Make the output layer compute logits at (N,) places of (B, T) = ``shape`` only, as (1, N, V).
    The list gets the (N, H) states there; it stays empty where a model has no such layer."""
    gathered: list[Tensor] = []

    def gather(module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = given[0] if given else None
        if hidden is None or hidden.shape[:-1] != shape or not hidden.is_floating_point():
            return given  # not the states that become logits
        gathered.append(hidden[line, column])
        return gathered[0][None], *given[1:]

    ask = getattr(model, "get_output_embeddings", None)
    try:
        head = ask() if ask is not None else None
    except NotImplementedError:
        head = None
    if head is None:
        yield gathered
        return
    handle = head.register_forward_pre_hook(gather)
    try:
        yield gathered
    finally:
        handle.remove()
