"""Draws follow the distribution asked for; log-probabilities and entropies are untempered."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms.base import Sampling
from searchgym.llms.causal import draw
from searchgym.seeding import stream

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -torch.inf])


def frequencies(sampling: Sampling, n: int = 40_000) -> np.ndarray:
    u = stream(0, "test").random(n)
    ids = draw(LOGITS.expand(n, -1), [sampling] * n, u.tolist()).ids
    return np.bincount(ids.numpy(), minlength=6) / n


def expected(sampling: Sampling) -> np.ndarray:
    """The textbook definition, one token at a time."""
    x = LOGITS.double().numpy() / sampling.temperature
    order = np.argsort(-x, kind="stable")
    keep = set(order[: sampling.top_k or len(x)].tolist())
    p = np.array([np.exp(v) if i in keep else 0.0 for i, v in enumerate(x)])
    p /= p.sum()
    mass, nucleus = 0.0, set()
    for i in order:
        if mass >= sampling.top_p:
            break
        nucleus.add(int(i))
        mass += p[i]
    p = np.array([v if i in nucleus else 0.0 for i, v in enumerate(p)])
    return np.asarray(p / p.sum())


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=3.0),
        Sampling(top_k=2),
        Sampling(top_p=0.8),
        Sampling(top_p=1e-9),
        Sampling(temperature=0.7, top_k=3, top_p=0.9),
    ],
)
def test_frequencies(sampling: Sampling) -> None:
    got, want = frequencies(sampling), expected(sampling)
    assert got[want == 0].sum() == 0, "outside the allowed set"
    assert np.abs(got - want).max() < 4 * np.sqrt(0.25 / 40_000)


def test_log_probabilities_and_entropy_are_untempered() -> None:
    drawn = draw(LOGITS[None], [Sampling(temperature=0.1, top_k=1)], [0.3])
    logp = LOGITS.double().log_softmax(-1)
    assert drawn.logp[0].item() == pytest.approx(logp[0].item(), abs=1e-6)
    want = -sum(p.exp() * p for p in logp[:5]).item()  # type: ignore[attr-defined]
    assert drawn.entropy[0].item() == pytest.approx(want, abs=1e-6)


def test_every_row_by_its_own_settings() -> None:
    sampling = [Sampling(temperature=0.0), Sampling(), Sampling(top_k=1), Sampling(temperature=2.0)]
    u = [0.99, 0.6, 0.999, 0.97]
    together = draw(LOGITS.expand(4, -1), sampling, u).ids.tolist()
    alone = [draw(LOGITS[None], [s], [x]).ids.item() for s, x in zip(sampling, u, strict=True)]
    assert together == alone
    assert (together[0], together[2]) == (0, 0)
    assert len(set(together)) > 1


@pytest.mark.parametrize("u", [0.0, 1.0 - 2**-53, 1.0])
def test_the_ends_of_the_unit_interval_never_reach_an_impossible_token(u: float) -> None:
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    assert draw(logits, [Sampling()], [u]).ids.item() in (1, 2)


@pytest.mark.parametrize("row", [[0.0, torch.nan], [torch.inf, 0.0], [-torch.inf, -torch.inf]])
def test_what_is_no_distribution_is_an_error(row: list[float]) -> None:
    logits = torch.tensor([[0.0, 1.0], row])
    for sampling in (Sampling(), Sampling(temperature=0.0)):
        with pytest.raises(EngineError, match="NaN or infinite logits"):
            draw(logits, [sampling] * 2, [0.5, 0.5])
