"""Parts that the contracts of slots have in common: refusing, batches with less to read, memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import CheckError
from ...policies.scoring import TOKEN_MEASURES
from .batch import Batch
from .protocols import Reduction
from .registry import SlotName, make

_OPTIONAL = (
    "turn_reward", "baseline", "old_logp", "ref_logp", "teacher_logp", "value", "returns",
    "value_mask", *TOKEN_MEASURES,
)  # fmt: skip
_PER_TOKEN = (
    "sampled_logp", "old_logp", "ref_logp", "teacher_logp", "turn_reward", "value", *TOKEN_MEASURES,
)  # fmt: skip


def require(condition: bool, spec: Any, promise: str) -> None:
    """``CheckError`` unless it holds."""
    if not condition:
        raise CheckError(f"{spec!r}: {promise}")


def close(a: Tensor, b: Tensor) -> bool:
    """Return True if both are equal up to rounding and hold no NaN."""
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-5, rtol=1e-5))


def poisoned(batch: Batch) -> Batch:
    """The same batch with NaN wherever nothing may be read."""
    nan = torch.tensor(float("nan"))
    changes: dict[str, Any] = {}
    for name in _PER_TOKEN:
        values = batch.need(name)
        there = batch.mask.reshape(*batch.mask.shape, *(1,) * (values.ndim - 2))
        changes[name] = torch.where(there, values, nan)
    return replace(batch, **changes)


def bare(batch: Batch, requires: Collection[str]) -> Batch:
    """The same batch without the optional fields that are not required."""
    absent: dict[str, Any] = dict.fromkeys(set(_OPTIONAL) - set(requires))
    return replace(batch, **absent)


def unlikely(batch: Batch) -> Batch:
    """The same batch with NaN as the sampling log-probabilities of experts."""
    nan = torch.full_like(batch.sampled_logp, float("nan"))
    return replace(batch, sampled_logp=torch.where(batch.expert[:, None], nan, batch.sampled_logp))


def check_needs(spec: Any, declared: Any, use: Callable[[], object]) -> None:
    """Check that it works when given nothing but what it requires."""
    try:
        use()
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckError(
            f"{spec!r}: requires names all that it reads; it has {sorted(declared.requires)}, and "
            f"with nothing else there it fails: {error}"
        ) from error


def check_memory(slot: SlotName, spec: Any, use: Callable[[Any], Any]) -> None:
    """Check that a new object with a used one's state (through JSON) behaves as the used one."""
    old, new = make(slot, spec), make(slot, spec)
    use(old)
    new.load_state_dict(json.loads(json.dumps(old.state_dict())))
    if hasattr(old, "tensors"):
        new.load_tensors({name: value.clone() for name, value in old.tensors().items()})
    a, b = use(old), use(new)
    same = close(a, b) if isinstance(a, Tensor) else a == b
    require(bool(same), spec, "state_dict holds all that is remembered, as JSON values")


def only(spec: Any, claim: Reduction) -> dict[str, Any]:
    """A recipe entry with a claim's options alone."""
    return {"use": spec if isinstance(spec, str) else spec["use"], **claim.options}
