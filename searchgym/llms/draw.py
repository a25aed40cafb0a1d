"""Drawing tokens: one uniform number per row and step, so that a draw depends on its row alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import EngineError
from .base import Sampling

if TYPE_CHECKING:
    from torch import Tensor


class Drawn(NamedTuple):
    """One token per row: (B,) each. ``logp`` and ``entropy`` are of the untempered distribution."""

    ids: Tensor
    logp: Tensor
    entropy: Tensor


def draw(logits: Tensor, sampling: Sequence[Sampling], uniform: Sequence[float]) -> Drawn:
    """Tokens from ``logits`` (B, V) by inverting each row's distribution function at ``uniform``.

    Order as in transformers and vLLM: temperature, then the ``top_k`` likeliest, then the smallest
    set of those whose mass reaches ``top_p``. Temperature 0 takes the likeliest (first of ties).
    """
    import torch

    logits = logits.float()
    logp = logits.log_softmax(-1)
    entropy = torch.special.entr(logp.exp()).sum(-1)
    if entropy.isnan().any():  # so it is for one NaN or +inf among a row's logits, or -inf alone
        raise EngineError(
            "the model gives NaN or infinite logits, which are no distribution: check its weights "
            'and load it in a wider dtype, e.g. "float32"'
        )
    ids = logits.argmax(-1)
    if any(s.temperature > 0 for s in sampling):
        heat = torch.tensor([s.temperature or 1.0 for s in sampling], device=logits.device)
        scaled = logits / heat[:, None]
        if any(s.top_k or s.top_p < 1 for s in sampling):
            scaled = _limit(scaled, sampling)
        wide = torch.float32 if logits.device.type == "mps" else torch.float64
        mass = scaled.to(wide).softmax(-1).cumsum(-1)
        total = mass[:, -1:].contiguous()
        at = torch.tensor(uniform, dtype=wide, device=logits.device)[:, None] * total
        at = torch.minimum(at, torch.nextafter(total, torch.zeros_like(total)))
        sampled = torch.searchsorted(mass, at, right=True)[:, 0]  # first token with mass above at
        hot = torch.tensor([s.temperature > 0 for s in sampling], device=logits.device)
        ids = torch.where(hot, sampled, ids)
    return Drawn(ids, logp.gather(-1, ids[:, None])[:, 0], entropy)


def _limit(scaled: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    """``scaled`` with -inf outside each row's top-k and nucleus (ties: lower ids first)."""
    import torch

    size = scaled.shape[-1]
    k = torch.tensor([s.top_k or size for s in sampling], device=scaled.device)
    p = torch.tensor([s.top_p for s in sampling], device=scaled.device)
    ordered, order = scaled.sort(stable=True, dim=-1, descending=True)
    rank = torch.arange(size, device=scaled.device)
    ordered = ordered.masked_fill(rank >= k[:, None], -torch.inf)
    mass = ordered.softmax(-1)
    before = mass.cumsum(-1) - mass
    outside = (before >= p[:, None]) & (p[:, None] < 1) & (rank > 0)
    ordered = ordered.masked_fill(outside, -torch.inf)
    return torch.empty_like(scaled).scatter_(-1, order, ordered)
