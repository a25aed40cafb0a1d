"""Retrieval metrics of evidence over passage ids, as trec_eval defines them.

``ranked`` is best first; a repeated id counts at its first place only. Without gold every metric is
``nan``: such queries have nothing to find and must be left out of means, not counted as failures.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int | None = None) -> float:
    """Share of the gold ids among the first k (all of ``ranked`` if k is None)."""
    wanted = set(gold)
    return len(wanted.intersection(ranked[:k])) / len(wanted) if wanted else math.nan


def precision_at(ranked: Sequence[str], gold: Collection[str], k: int | None = None) -> float:
    """Gold ids among the first k over k, however few there are, as trec_eval has it.

    With ``k=None``: over the number of different ids in ``ranked``, 0 if there are none.
    """
    wanted = set(gold)
    if not wanted:
        return math.nan
    size = len(set(ranked)) if k is None else k
    return len(wanted.intersection(ranked[:k])) / size if size else 0.0


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str], k: int | None = None) -> float:
    """1 / rank of the first gold id within the first k, else 0. Its mean is MRR."""
    wanted = set(gold)
    if not wanted:
        return math.nan
    return next((1 / rank for rank, key in enumerate(ranked[:k], 1) if key in wanted), 0.0)


def ndcg_at(ranked: Sequence[str], grades: Mapping[str, int], k: int | None = None) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen, 2002), gain = grade.

    Negative grades count as 0, as in trec_eval.
    """
    ideal = sorted((g for g in grades.values() if g > 0), reverse=True)[:k]
    if not ideal:
        return math.nan
    gain = sum(
        max(grades.get(key, 0), 0) / math.log2(rank + 1) for rank, key in _first_places(ranked[:k])
    )
    return gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal, 1))


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the values that are not ``nan``; ``nan`` if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _first_places(ranked: Sequence[str]) -> Iterable[tuple[int, str]]:
    seen: set[str] = set()
    for rank, key in enumerate(ranked, 1):
        if key not in seen:
            seen.add(key)
            yield rank, key
