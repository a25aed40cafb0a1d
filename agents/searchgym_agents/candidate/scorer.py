"""The candidate agent's network: scores a state's candidates together. Imports torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from searchgym.errors import DataError
from searchgym.storage.files import parse_json

from .features import FEATURE_NAMES, FEATURE_VERSION


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


Float = NDArray[np.float32]


class _Member(nn.Module):
    """One network: standardised rows → logits, with a pooled view of the whole state.

    Each row passes a layer and is joined with the mean and the largest activations over its state's
    rows (so that "nothing here answers the question" can be seen by every row); a second layer and
    two heads, one for searches and one for answers, give the logit.
    """

    def __init__(self, features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.rows = nn.Linear(features, width)
        self.pool = nn.Linear(2 * width, width)
        self.hidden = nn.Linear(width, width)
        self.heads = nn.Linear(width, 2)
        self.drop = Dropout(dropout)
        with torch.no_grad():
            self.pool.weight.mul_(0.5)
            # Answers outnumber searches: without a head start a second search is hardly ever tried.
            self.heads.bias.copy_(torch.tensor([0.8, 0.0]))

    def forward(
        self, rows: Tensor, is_search: Tensor, states: Segments, bits: Tensor | None = None
    ) -> Tensor:
        """(N,) logits of N rows, the candidates of several states; ``bits``: dropout's."""
        first = nn.functional.gelu(self.drop(self.rows(rows), bits))
        mean = states.sum(first) / states.sizes[:, None]
        context = self.pool(torch.cat([mean, states.top(first)], 1))
        logits = self.heads(nn.functional.gelu(self.hidden(first) + states.spread(context)))
        return torch.where(is_search, logits[:, 0], logits[:, 1])


class Dropout(nn.Module):
    """Dropout as ``torch.nn.Dropout``, from 16 random bits an entry: a third of the time on a CPU,
    where drawing them is most of the work. The share that is dropped is rounded to 2^-16."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def draw(self, entries: int) -> Tensor | None:
        """Random bits for as many entries, by PyTorch's generator; None outside training."""
        if not self.training or not self.p:
            return None
        words = torch.empty(-(-entries // 4), dtype=torch.int64).random_(-(2**63), None)
        return words.view(torch.int16)[:entries]

    def forward(self, x: Tensor, bits: Tensor | None = None) -> Tensor:
        """Entries of ``x`` or 0, scaled so that their mean stays; ``x`` outside training."""
        bits = self.draw(x.numel()) if bits is None else bits
        if bits is None:
            return x
        kept = bits.view(x.shape).to(x.device) >= round(self.p * 2**16) - 2**15
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))


class CandidateScorer(nn.Module):
    """(candidates, features) → logits: the mean over a few networks that are trained side by side.

    Each has its own first weights and gradient, so their errors differ and partly cancel in the
    mean, most of all on questions unlike the training's (deep ensembles, Lakshminarayanan et al.,
    arXiv:1612.01474).

    Args:
        features: number of columns.
        width: hidden width of each network.
        dropout: on the first layer, in training only.
        members: how many networks.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        features: int = len(FEATURE_NAMES),
        width: int = 64,
        dropout: float = 0.1,
        members: int = 3,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "features": features, "width": width, "dropout": dropout, "members": members,
        }  # fmt: skip
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.members = nn.ModuleList(_Member(features, width, dropout) for _ in range(members))

    def standardise(self, sample: Float) -> None:
        """Fix each column's mean and scale from (N, F) rows. A column that is constant here is left
        as it is: it may well speak in other states."""
        std = sample.std(0)
        scale = np.where(std > 1e-3, 1 / np.where(std > 1e-3, std, 1), 1)
        self.mean.copy_(torch.from_numpy(sample.mean(0)))
        self.scale.copy_(torch.from_numpy(scale.astype(np.float32)))

    def each(self, rows: Tensor, state: Tensor, states: int) -> Tensor:
        """Logits (members, N) of all candidates of several states, by every network.

        ``rows`` (N, F) features, ``state`` (N,) which of the ``states`` each row belongs to.
        """
        return torch.stack([network() for network in self.networks(rows, state, states)])

    def networks(self, rows: Tensor, state: Tensor, states: int) -> list[Callable[[], Tensor]]:
        """The networks on these candidates, each to be called for its logits (N,), in any order or
        thread: what chance decides is drawn before."""
        is_search = rows[:, :SEARCH_FORMS].sum(1) > 0.5
        rows = (rows - self.mean).mul_(self.scale).clamp_(-6, 6)
        segments = Segments(state, states)
        entries = len(rows) * int(self.config["width"])
        return [
            partial(member, rows, is_search, segments, member.drop.draw(entries))  # type: ignore[union-attr,operator]
            for member in self.members
        ]

    def forward(self, rows: Tensor, state: Tensor, states: int) -> Tensor:
        """Logits (N,): the mean of ``each``."""
        return self.each(rows, state, states).mean(0)


SEARCH_FORMS = 3
"""Number of forms that are searches: the first of the one-hot columns over forms."""


def segment_log_softmax(logits: Tensor, state: Tensor, states: int) -> Tensor:
    """Log-probabilities (N,) within each state; ``state`` (N,) in ascending order."""
    return Segments(state, states).log_softmax(logits)


def stack(features: Sequence[NDArray[np.floating]]) -> tuple[Tensor, Tensor, list[int]]:
    """Rows of several states as (rows (N, F) float32, state (N,), where each state starts)."""
    sizes = [len(f) for f in features]
    rows = torch.from_numpy(np.concatenate(features)).float()
    state = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    return rows, state, starts


def save_scorer(model: CandidateScorer, path: Path | str, meta: dict[str, object]) -> None:
    """Write weights (safetensors) with shape, feature names and ``meta`` beside them as JSON."""
    header = {
        "config": model.config,
        "feature_version": FEATURE_VERSION,
        "features": list(FEATURE_NAMES),
        "meta": meta,
    }
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    save_file(tensors, str(path), metadata={"searchgym": json.dumps(header, sort_keys=True)})


def load_scorer(path: Path | str) -> tuple[CandidateScorer, dict[str, object]]:
    """Read what ``save_scorer`` wrote.

    Raises:
        DataError: not such a file, or made for other features than this version computes.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file; expected a candidate agent's .safetensors")
    with safe_open(str(path), framework="pt") as handle:
        raw = (handle.metadata() or {}).get("searchgym")
        if raw is None:
            raise DataError(f"{path}: not a candidate agent (no searchgym header)")
        header = parse_json(raw, path)
        tensors = {k: handle.get_tensor(k) for k in handle.keys()}  # noqa: SIM118
    if header["feature_version"] != FEATURE_VERSION or header["features"] != list(FEATURE_NAMES):
        raise DataError(
            f"{path}: made for feature version {header['feature_version']}, this is version "
            f"{FEATURE_VERSION}; train again"
        )
    try:
        model = CandidateScorer(**header["config"])
        model.load_state_dict(tensors)
    except (TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: a network of another shape ({why}); train again") from None
    return model.eval(), header["meta"]
