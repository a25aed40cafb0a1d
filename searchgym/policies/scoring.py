"""Log-probabilities of the tokens in training rows, with gradient."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import EngineError, unknown
from ..llms.batches import logits_at, micro_batches, right_padded, states_at
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


LEAST_LOGP = -50.0
"""Log-probability that less likely tokens count as in ``self_certainty``."""
TOP = 10
"""Number of log-probabilities in ``top_logp``."""
TOKEN_MEASURES = (
    "old_entropy", "sum_pi_sq", "self_certainty", "top_logp", "hidden", "logit_gradient",
)  # fmt: skip
"""Measures of the distribution that a token was drawn from: its entropy; the sum of its squared
probabilities; the KL divergence from the uniform distribution to it; its ``TOP`` largest
log-probabilities, (B, T, TOP), with -inf beyond a smaller vocabulary; the last hidden state, which
became its logits, (B, T, H); and the gradient of the token's log-probability by the logits of some
ids, (B, T, C): 1 for its own less their probabilities."""

CHUNK = 1 << 24
"""Most logits that are float32 at once: of all sampled tokens at a large vocabulary they would
take more memory than the model."""


def sampled_ids(rows: Sequence[TrainingRow]) -> list[int]:
    """Return the ids that were sampled anywhere in the rows, each once, in ascending order."""
    ids: list[int] = np.unique(np.concatenate([row.ids[row.sampled] for row in rows])).tolist()
    return ids


def measured(name: str, logp: Tensor) -> Tensor:
    """Compute a measure, (n,) or (n, TOP), of n distributions: (n, V) log-probabilities."""
    import torch

    if name == "old_entropy":
        return -torch.special.xlogy(logp.exp(), logp.exp()).sum(-1)
    if name == "sum_pi_sq":
        return logp.exp().square().sum(-1)
    if name == "self_certainty":
        # where a token cannot be drawn the divergence would be infinite
        return -logp.clamp_min(LEAST_LOGP).mean(-1) - float(np.log(logp.shape[-1]))
    if name == "top_logp":
        most = logp.topk(min(TOP, logp.shape[-1])).values
        short = (0, TOP - most.shape[-1])
        return torch.nn.functional.pad(most, short, value=-torch.inf)
    raise EngineError(unknown("measure of tokens", name, TOKEN_MEASURES))


def logit_gradient(logp: Tensor, drawn: Tensor, among: Tensor) -> Tensor:
    """(n, C) gradients of the log-probabilities of (n,) drawn ids by the logits of (C,) others, of
    (n, V) log-probabilities."""
    return (drawn[:, None] == among).to(logp) - logp[:, among].exp()


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
    parts = list(micro_batches([len(r) for r in rows], tokens))
    columns = sampled_ids(rows) if among is None else list(among)
    chunks: list[_Found] = []
    for part in parts:
        made = _pass(model, [rows[i] for i in part], pad, entropy, measures, columns)
        chunks += [c._replace(line=torch.tensor(part, device=c.line.device)[c.line]) for c in made]
    shape = len(rows), max(map(len, rows))
    where = torch.cat([c.line for c in chunks]), torch.cat([c.column for c in chunks])

    def spread(values: list[Any]) -> Tensor:
        joined = torch.cat(values)  # (N, …), N tokens
        blank = torch.zeros(*shape, *joined.shape[1:], device=joined.device)
        return blank.index_put(where, joined)

    logp = spread([c.logp for c in chunks])
    for _ in range(0 if passes is None else passes(len(parts)) - len(parts)):
        for more in _pass(model, [rows[parts[0][0]]], pad, False, (), ()):
            logp = logp + 0 * more.logp.sum()
    return TokenScores(
        logp,
        spread([c.entropy for c in chunks]) if entropy else None,
        {name: spread([c.measures[name] for c in chunks]) for name in measures},
    )


class _Found(NamedTuple):
    """Numbers of n sampled tokens of a pass, (n,) or (n, …) each."""

    line: Tensor
    """Index of the token's row in the pass."""
    column: Tensor
    logp: Tensor
    entropy: Tensor | None
    measures: Mapping[str, Tensor]


def _pass(
    model: Any, rows: Sequence[TrainingRow], pad: int, entropy: bool, measures: Collection[str],
    among: Sequence[int],
) -> Iterator[_Found]:  # fmt: skip
    import torch

    extra = right_padded(getattr(model, "module", model), rows, pad)  # DistributedDataParallel's
    tokens = extra.pop("input_ids")
    sampled = np.zeros(tokens.shape, np.bool_)
    for i, row in enumerate(rows):
        sampled[i, : len(row)] = row.sampled
    line, column = (torch.from_numpy(a).to(tokens.device) for a in np.nonzero(sampled))
    named = torch.tensor(among, dtype=torch.long, device=tokens.device)
    states = tokens[line]  # read only if hidden states are asked for
    if "hidden" in measures:
        logits, hidden = states_at(model, tokens, line, column - 1, **extra)
        states = hidden.detach().float()
    else:
        logits = logits_at(model, tokens, line, column - 1, **extra)  # (N, V), N sampled in all
    size = max(1, CHUNK // logits.shape[-1])
    pieces = (x.split(size) for x in (line, column, tokens[line, column], states, logits))
    for at, place, drawn, state, wide in zip(*pieces, strict=True):
        wide = wide.float().log_softmax(-1)  # (n, V)
        picked = wide.gather(-1, drawn[:, None])[:, 0]
        by_measure: dict[str, Tensor] = {}
        for name in measures:
            if name == "hidden":
                by_measure[name] = state
            elif name == "logit_gradient":
                by_measure[name] = logit_gradient(wide.detach(), drawn, named)
            else:
                by_measure[name] = measured(name, wide.detach())
        spread = -(wide.exp() * wide).sum(-1) if entropy else None
        yield _Found(at, place, picked, spread, by_measure)
