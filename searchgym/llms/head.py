"""Computes logits at chosen places only.

Those of prompt tokens are not needed in training, and with a large vocabulary they cost as much as
all layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


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
