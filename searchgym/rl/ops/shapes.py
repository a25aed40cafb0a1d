"""Shape checks, because broadcasting a (B,) tensor beside a (B, T) one is a silent error."""

from __future__ import annotations

from torch import Tensor


def require_rows(**tensors: Tensor) -> None:
    """``ValueError`` unless all are (B,), with one B."""
    _require("(B,)", 1, tensors)


def require_tokens(**tensors: Tensor) -> None:
    """``ValueError`` unless all are (B, T), with one B and one T."""
    _require("(B, T)", 2, tensors)


def require_batch(mask: Tensor, **rows: Tensor) -> None:
    """``ValueError`` unless the mask is (B, T) and all others are (B,), with one B."""
    for name, tensor in rows.items():
        if mask.ndim != 2 or tuple(tensor.shape) != (len(mask),):
            raise ValueError(
                f"expected {name} (B,) beside a (B, T) mask, got {name} {tuple(tensor.shape)} and "
                f"mask {tuple(mask.shape)}"
            )


def _require(expected: str, dims: int, tensors: dict[str, Tensor]) -> None:
    shapes = {tuple(t.shape) for t in tensors.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != dims:
        got = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
        raise ValueError(f"expected equal shapes {expected}, got {got}")
