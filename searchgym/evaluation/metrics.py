"""What is measured of each question, and the means over questions.

``em``, ``cover_em`` and ``f1`` are distinct names for distinct numbers (papers call two of them
EM); none of them is ever reported under another's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..episode import Episode
from ..errors import EvaluationError, unknown
from ..trajectory import evidence_recall
from .intervals import RESAMPLES, Interval, mean_interval


class Row(NamedTuple):
    """One question, answered by one agent."""

    task_id: str
    family: str
    hops: int
    em: float
    """1 if the normalised answer equals an accepted one (SQuAD normalisation), else 0."""
    f1: float
    """Token F1 of the normalised answer, best over the accepted ones."""
    cover_em: float
    """1 if an accepted answer is a substring of the answer: what ZeroSearch calls EM."""
    evidence_recall: float
    """Share of the gold passages that were shown; NaN where the task names none."""
    searches: int
    """Queries run (parallel ones count one by one)."""
    turns: int
    invalid: int
    """Turns that were not a legal action."""
    end: str
    """answered | unanswered | max_turns | max_chars | max_tokens | infra_error"""
    retries: int
    """Failed calls that were tried again."""
    answer: str

    @property
    def infra_error(self) -> bool:
        """Whether the infrastructure, not the agent, ended the episode."""
        return self.end == "infra_error"


METRICS: Mapping[str, bool] = {
    "em": True, "f1": True, "cover_em": True, "evidence_recall": True,
    "searches": False, "turns": False, "invalid": False,
}  # fmt: skip
"""Every measure with a mean, and whether it lies in [0, 1] by definition."""


def row_of(episode: Episode) -> Row:
    """The row of a finished episode. An episode cut by a budget scores 0.

    Raises:
        EvaluationError: the episode still runs.
    """
    outcome, task = episode.outcome(), episode.config.task
    if outcome is None:
        raise EvaluationError(f"episode {episode.config.episode_id} has not ended")
    parts = outcome.parts
    return Row(
        task_id=task.id,
        family=task.family,
        hops=task.hops,
        em=parts.get("em", 0.0),
        f1=parts.get("f1", 0.0),
        cover_em=parts.get("cover_em", 0.0),
        evidence_recall=evidence_recall(episode),
        searches=episode.queries,
        turns=len(episode.turns),
        invalid=sum("invalid" in turn.reward_parts for turn in episode.turns),
        end=outcome.end,
        retries=episode.retries,
        answer=outcome.answer,
    )


def column(rows: Sequence[Row], metric: str) -> NDArray[np.float64]:
    """A metric of every row (n,); NaN where it is missing or the infrastructure failed.

    Episodes that ended in ``infra_error`` say nothing about the agent; they are left out of means
    and counted by :func:`infra_by_searches`, because leaving them out favours agents that search
    less.
    """
    if metric not in METRICS:
        raise EvaluationError(unknown("metric", metric, METRICS))
    return np.array(
        [np.nan if row.infra_error else getattr(row, metric) for row in rows], dtype=np.float64
    )


def means(rows: Sequence[Row], *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Interval]:
    """Mean and 95 % interval over questions of every metric."""
    return {
        name: mean_interval(column(rows, name), seed=seed, resamples=resamples, unit=unit)
        for name, unit in METRICS.items()
    }


def by_family(rows: Sequence[Row], metric: str = "em") -> dict[str, float]:
    """Mean of a metric per task family, families in alphabetical order."""
    values = column(rows, metric)
    names = np.array([row.family for row in rows])
    out: dict[str, float] = {}
    for name in sorted(set(names.tolist())):
        kept = values[names == name]
        kept = kept[~np.isnan(kept)]
        out[name] = float(kept.mean()) if len(kept) else float("nan")
    return out


def infra_by_searches(rows: Sequence[Row]) -> dict[int, tuple[int, int]]:
    """Searches run → (episodes lost to the infrastructure, episodes), ascending."""
    out: dict[int, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda r: r.searches):
        lost, total = out.get(row.searches, (0, 0))
        out[row.searches] = (lost + row.infra_error, total + 1)
    return out


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples is right, estimated from n samples, c of them right.

    1 − C(n−c, k) / C(n, k), the unbiased estimator of Chen et al. (2021, arXiv 2107.03374), as the
    product over i = n−c+1 … n of (1 − k/i): no large binomials, no overflow.

    Raises:
        EvaluationError: unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    if not (1 <= k <= n and 0 <= c <= n):
        raise EvaluationError(f"pass@k needs 1 ≤ k ≤ n and 0 ≤ c ≤ n, got n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    miss = 1.0
    for i in range(n - c + 1, n + 1):
        miss *= 1.0 - k / i
    return 1.0 - miss


def pass_at(
    rows: Sequence[Row],
    ks: Sequence[int] = (1,),
    metric: str = "em",
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[int, Interval]:
    """pass@k with its 95 % interval over questions, for each k.

    The samples of a question are its rows, from as many evaluations as one likes; a sample is
    right if ``metric`` is 1. Samples lost to the infrastructure do not count; a question that has
    fewer than k left because of them is left out of that mean (its ``n`` says so).

    Raises:
        EvaluationError: a question was sampled fewer than k times.
    """
    values = column(rows, metric)
    groups: dict[str, list[float]] = {}
    for row, value in zip(rows, values, strict=True):
        groups.setdefault(row.task_id, []).append(float(value))
    out: dict[int, Interval] = {}
    for k in ks:
        if k < 1:
            raise EvaluationError(f"pass@k needs k ≥ 1, got {k}")
        found: list[float] = []
        for task_id, samples in groups.items():
            if len(samples) < k:
                raise EvaluationError(
                    f"pass@{k} needs {k} samples of each question, {task_id!r} has {len(samples)}"
                )
            known = [s for s in samples if not np.isnan(s)]
            right = sum(s >= 1.0 for s in known)
            found.append(pass_at_k(len(known), right, k) if len(known) >= k else np.nan)
        out[k] = mean_interval(np.array(found), seed=seed, resamples=resamples, unit=True)
    return out
