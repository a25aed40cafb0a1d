"""Log-probabilities of the tokens in training rows, with gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import EngineError, unknown
from ..llms.head import logits_at, states_at
from .rows import TrainingRow

if TYPE_CHECKING:
    from torch import Tensor


class TokenScores(NamedTuple):
    """Log-probabilities and entropies, (B, T) each, T the longest row's length: column t belongs to
    token t, 0 where it was not sampled."""

    logp: Tensor
    """Natural logarithms, float32, of the untempered distribution."""
    entropy: Tensor | None
    """Entropy in nats of the distribution the token was drawn from."""
    measures: Mapping[str, Tensor] = {}
    """Further measures that were asked for, of ``TOKEN_MEASURES``: (B, T), or (B, T, D)."""


TOP = 10
"""Number of log-probabilities in ``top_logp``."""
TOKEN_MEASURES = ("old_entropy", "sum_pi_sq", "top_logp", "hidden", "logit_gradient")
"""Measures of the distribution that a token was drawn from: its entropy; the sum of its squared
probabilities; its ``TOP`` largest log-probabilities, (B, T, TOP), with -inf beyond a smaller
vocabulary; the last hidden state, which became its logits, (B, T, H); and the gradient of the
token's log-probability by the logits of some ids, (B, T, C): 1 for its own less their
probabilities."""


def sampled_ids(rows: Sequence[TrainingRow]) -> list[int]:
    """Return the ids that were sampled anywhere in the rows, each once, in ascending order."""
    found: list[int] = np.unique(np.concatenate([row.ids[row.sampled] for row in rows])).tolist()
    return found


def measured(name: str, logp: Tensor) -> Tensor:
    """Compute a measure, (n,) or (n, TOP), of n distributions: (n, V) log-probabilities."""
    import torch

    if name == "old_entropy":
        return -torch.special.xlogy(logp.exp(), logp.exp()).sum(-1)
    if name == "sum_pi_sq":
        return logp.exp().square().sum(-1)
    if name == "top_logp":
        most = logp.topk(min(TOP, logp.shape[-1])).values
        short = (0, TOP - most.shape[-1])
        return torch.nn.functional.pad(most, short, value=-torch.inf)
    raise EngineError(unknown("measure of tokens", name, TOKEN_MEASURES))


def logit_gradient(logp: Tensor, drawn: Tensor, among: Tensor) -> Tensor:
    """(n, C) gradients of the log-probabilities of (n,) drawn ids by the logits of (C,) others, of
    (n, V) log-probabilities."""
    return (drawn[:, None] == among).to(logp) - logp[:, among].exp()


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield indices of rows that go through the model together: rows of similar length, at most
    ``tokens`` with padding (a longer row goes alone). Every index comes once."""
    if tokens < 1:
        raise EngineError(f"the token budget must be at least 1, got {tokens}")
    part: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if part and lengths[i] * (len(part) + 1) > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def score(
    model: Any,
    rows: Sequence[TrainingRow],
    *,
    pad: int,
    tokens: int = 16_384,
    entropy: bool = False,
    measures: Collection[str] = (),
    among: Sequence[int] | None = None,
    passes: Callable[[int], int] | None = None,
) -> TokenScores:
    """Compute log-probabilities of every sampled token, in passes of at most ``tokens`` padded
    tokens. Gradients flow if they are on; to bound memory in training, pass the rows of one of
    :func:`micro_batches` and go backward before the next.

    Args:
        measures: Names in ``TOKEN_MEASURES`` of what else to compute, without gradient.
        among: Token ids of the columns of ``logit_gradient``; default: those sampled in the rows.
        passes: Maps the passes this process needs to those it must make, because processes that
            share a sharded model need more; surplus passes have no effect.

    Raises:
        EngineError: no rows, or a row whose first token is sampled: nothing stands before it.
    """
    import torch

    if not rows:
        raise EngineError("there are no rows to score")
    if wrong := [r.trajectory_id for r in rows if not len(r) or r.sampled[0]]:
        raise EngineError(f"rows begin with a prompt; {wrong[0]!r} has a row that does not")
    width = max(map(len, rows))
    logp: list[Any] = [None] * len(rows)
    spread: list[Any] = [None] * len(rows)
    more: dict[str, list[Any]] = {name: [None] * len(rows) for name in measures}
    parts = list(micro_batches([len(r) for r in rows], tokens))
    columns = sampled_ids(rows) if among is None else list(among)
    for part in parts:
        made = _pass(model, [rows[i] for i in part], pad, entropy, measures, columns)
        for i, (at, values, entropies, found) in zip(part, made, strict=True):
            blank = torch.zeros(width, device=values.device)
            logp[i] = blank.index_put((at,), values)
            spread[i] = blank.index_put((at,), entropies) if entropy else None
            for name, numbers in found.items():
                empty = torch.zeros(width, *numbers.shape[1:], device=numbers.device)
                more[name][i] = empty.index_put((at,), numbers)
    for _ in range(0 if passes is None else passes(len(parts)) - len(parts)):
        for _, values, *_ in _pass(model, [rows[parts[0][0]]], pad, False, (), ()):
            logp[0] = logp[0] + 0 * values.sum()
    stacked = {name: torch.stack(lines) for name, lines in more.items()}
    return TokenScores(torch.stack(logp), torch.stack(spread) if entropy else None, stacked)


def _pass(
    model: Any, rows: Sequence[TrainingRow], pad: int, entropy: bool, measures: Collection[str],
    among: Sequence[int],
) -> Iterator[tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]]:  # fmt: skip
    """Yield each row's sampled columns, their log-probabilities and entropies, (n,) each, and
    measures.

    Padding is on the right, where neither causal attention nor convolution looks, so it needs no
    mask, and attention may take its fast causal path.
    """
    import torch

    inner = getattr(model, "module", model)  # DistributedDataParallel's
    takes = inspect.signature(inner.forward).parameters
    width = max(map(len, rows))
    ids = np.full((len(rows), width), pad, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row.ids
    tokens = torch.from_numpy(ids).to(inner.device)
    extra: dict[str, Any] = {}
    if "position_ids" in takes:
        extra["position_ids"] = torch.arange(width, device=inner.device).expand(len(rows), width)
    sampled = np.zeros(ids.shape, np.bool_)
    for i, row in enumerate(rows):
        sampled[i, : len(row)] = row.sampled
    line, column = (torch.from_numpy(a).to(inner.device) for a in np.nonzero(sampled))
    counts = sampled.sum(1).tolist()
    named = torch.tensor(among, dtype=torch.long, device=inner.device)
    states: Sequence[Tensor] = [tokens] * len(rows)  # read only if hidden states are asked for
    if "hidden" in measures:
        logits, hidden = states_at(model, tokens, line, column - 1, **extra)
        states = hidden.detach().float().split(counts)
    else:
        logits = logits_at(model, tokens, line, column - 1, **extra)  # (N, V), N sampled in all
    for i, (at, wide) in enumerate(zip(column.split(counts), logits.split(counts), strict=True)):
        wide = wide.float().log_softmax(-1)  # (n, V), row by row: (N, V) in float32 is large
        drawn = tokens[i, at]
        picked = wide.gather(-1, drawn[:, None])[:, 0]
        found: dict[str, Tensor] = {}
        for name in measures:
            if name == "hidden":
                found[name] = states[i]
            elif name == "logit_gradient":
                found[name] = logit_gradient(wide.detach(), drawn, named)
            else:
                found[name] = measured(name, wide.detach())
        yield at, picked, -(wide.exp() * wide).sum(-1) if entropy else picked, found
