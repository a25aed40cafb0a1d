"""SearchLLM's gated sum of what must be and what is nice to have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from searchgym import CardError
from searchgym.errors import unknown
from searchgym.rewards import SCORES, Outcome


@dataclass(frozen=True)
class SearchLLM:
    """Pay B · U: the nice-to-have mean U counts as far as the must-have scores B let it through.

    B = exp(mean log(b + δ)) - δ over the scores in ``must``, U the mean of those in ``nice``
    (SearchLLM). The gate by a smoothed geometric mean is the paper's; its δ, weights and scores
    were not read: ``delta``, equal weights and the names of ``lookups.SCORES`` are ours. Its judged
    scores (richness, usability) have no exact counterpart.

    Raises:
        CardError: a score that is not known, or none at all.
    """

    registered = "reward:search_llm"
    systems = ("SearchLLM",)

    must: Sequence[str] = field(default_factory=lambda: ["grounded", "format", "answered"])
    nice: Sequence[str] = field(default_factory=lambda: ["f1", "evidence", "thrift"])
    delta: float = 0.01

    def __post_init__(self) -> None:
        for name in (*self.must, *self.nice):
            if name not in SCORES:
                raise CardError(unknown("score", name, SCORES))
        if not self.must or not self.nice or not self.delta > 0:
            raise CardError("search_llm needs scores in 'must' and 'nice', and delta above 0")

    def final(self, outcome: Outcome) -> float:
        must = [SCORES[name](outcome) for name in self.must]
        nice = [SCORES[name](outcome) for name in self.nice]
        return smoothed_mean(must, self.delta) * sum(nice) / len(nice)


def smoothed_mean(scores: Sequence[float], delta: float) -> float:
    """Geometric mean of scores + ``delta``, less ``delta``."""
    return math.exp(sum(math.log(score + delta) for score in scores) / len(scores)) - delta
