"""Compares two generators of one model by the log-probabilities of the same tokens.

Inference engines differ from the trainer's forward pass: kernels, precision, or plain defects (an
architecture half-supported). Training on log-probabilities that are off is biased without warning,
so check before and now and then during training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import EngineError
from .base import Completion, Generator, GenRequest, require


class Agreement(NamedTuple):
    """Absolute differences of log-probabilities over ``tokens`` tokens, in nats."""

    tokens: int
    mean: float
    max: float


def agreement(sampler: Generator, scorer: Generator, requests: Sequence[GenRequest]) -> Agreement:
    """``sampler`` writes, ``scorer`` scores the same ids; prompts must be token ids.

    ``EngineError`` if either lacks a capability, a request fails, or nothing was written.
    """
    require(sampler, "ids", "logp")
    require(scorer, "ids", "score")
    if any(isinstance(r.prompt, str) or not isinstance(r.prompt[0], int) for r in requests):
        raise EngineError("agreement needs prompts as token ids: encode them first")
    pairs, said = [], []
    for request, answer in zip(requests, sampler.run(requests), strict=True):
        if not isinstance(answer, Completion) or answer.ids is None or answer.logp is None:
            raise EngineError(f"{type(sampler).__name__} did not answer: {answer}")
        pairs.append((request.prompt, answer.ids))
        said.append(answer.logp)
    gaps = []
    for logp, score in zip(said, scorer.score(pairs), strict=True):  # type: ignore[arg-type]
        if not isinstance(score, np.ndarray):
            raise EngineError(f"{type(scorer).__name__} did not score: {score}")
        gaps.append(np.abs(logp.astype(np.float64) - score))
    every = np.concatenate(gaps) if gaps else np.zeros(0)
    if not every.size:
        raise EngineError("agreement needs at least one request")
    return Agreement(int(every.size), float(every.mean()), float(every.max()))


def require_agreement(
    sampler: Generator, scorer: Generator, requests: Sequence[GenRequest], *, atol: float = 1e-2
) -> Agreement:
    """``agreement``, or ``EngineError`` if any token differs by more than ``atol`` nats."""
    measured = agreement(sampler, scorer, requests)
    if not measured.max <= atol:
        raise EngineError(
            f"{type(sampler).__name__} and {type(scorer).__name__} disagree by up to "
            f"{measured.max:.2g} nats (mean {measured.mean:.2g}, {measured.tokens} tokens; allowed "
            f"{atol:g}): not the same weights, or this architecture is not computed alike"
        )
    return measured
