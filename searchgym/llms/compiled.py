"""A model's layers compiled for training: their many small operations become a few large ones.

A layer of a causal LM normalises, rotates and gates between its matrix products, and each of these
operations reads and writes all activations. Compiled, neighbours are done in one pass over memory.
All layers of a model are of one kind, so one compilation serves them all.
"""

from __future__ import annotations

from functools import cache, wraps
from typing import Any

from ..errors import EngineError


def compile_layers(model: Any, backend: str = "inductor") -> int:
    """Compile the layers of a model of transformers in place; return how many there are.

    They are compiled at the first forward pass with gradients, for all numbers of rows and tokens
    at once. Passes without gradients stay as they were: there sampling keeps keys and values.

    Args:
        model: A causal LM.
        backend: A backend of ``torch.compile``.

    Raises:
        EngineError: the model does not say which of its modules are layers, or checkpoints its
            activations.
    """
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in kinds]
    if not layers:
        raise EngineError(
            f"{type(model).__name__} does not say which of its modules are layers "
            "(_no_split_modules), so they cannot be compiled: leave compile out"
        )
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        raise EngineError(
            "layers whose activations are computed twice are not compiled: give compile or "
            "gradient_checkpointing, not both"
        )
    for layer in layers:
        kind: Any = type(layer)
        layer.__class__ = _compiled(kind, backend)
    return len(layers)


@cache
def _compiled(kind: Any, backend: str) -> Any:
    """A subclass, not a method of each layer, so that a copy of a layer computes with its own
    weights."""
    import torch

    fast = torch.compile(kind.forward, dynamic=True, backend=backend)

    @wraps(kind.forward)
    def forward(self: Any, *args: Any, **options: Any) -> Any:
        return (fast if torch.is_grad_enabled() else kind.forward)(self, *args, **options)

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
