"""One ranking from several: reciprocal-rank fusion and ACQO's rank-score fusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from ..types import Charged, Hit, Passage, Ranking

Mean = Literal["arithmetic", "harmonic"]
_make_hit = partial(tuple.__new__, Hit)


def reciprocal_rank_fusion(
    rankings: Sequence[Ranking], k: int, *, constant: float = 60.0, weights: Sequence[float] = ()
) -> Ranking:
    """The k best by Σ weight / (constant + rank) over the rankings that hold a passage.

    Ranks count from 1; ties by passage id (Cormack, Clarke and Büttcher, SIGIR 2009: constant 60).
    ``weights`` are 1 unless given, one per ranking.
    """
    parts: dict[str, list[float]] = {}
    passages: dict[str, Passage] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, hit in enumerate(ranking, 1):
            passages.setdefault(hit.passage.id, hit.passage)
            parts.setdefault(hit.passage.id, []).append(weight / (constant + rank))
    scores = {key: math.fsum(values) for key, values in parts.items()}
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: max(0, k)]
    return tuple(_make_hit((passages[key], score)) for key, score in best)


def rank_score_fusion(rankings: Sequence[Ranking], k: int, *, mean: Mean = "arithmetic") -> Ranking:
    """The k best by mean rank P over the rankings that hold a passage, then by largest score S.

    From ACQO (arXiv 2601.21208), which leaves ties open; here P ascending, S descending, passage
    id. A hit's score is 1 / P; where P is equal and S is not, the later hit's is the next smaller
    number, so that equal scores still mean a true tie.
    """
    ranks: dict[str, list[int]] = {}
    largest: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            key = hit.passage.id
            ranks.setdefault(key, []).append(rank)
            if key not in largest or hit.score > largest[key].score:
                largest[key] = hit
    means = {key: _mean(passage_ranks, mean) for key, passage_ranks in ranks.items()}
    order = sorted(means, key=lambda key: (means[key], -largest[key].score, key))[: max(0, k)]
    hits: list[Hit] = []
    last: tuple[Fraction, float] | None = None
    for key in order:
        place = (means[key], largest[key].score)
        score = float(1 / means[key])
        if last is not None and last[0] == place[0]:
            score = hits[-1].score
            if last[1] != place[1]:
                score = math.nextafter(score, -math.inf)
        hits.append(_make_hit((largest[key].passage, score)))
        last = place
    return tuple(hits)


def with_notes(hits: Ranking, rankings: Sequence[Ranking]) -> Ranking:
    """``hits`` with what the fused rankings cost together and the notes they came with.

    Lists of notes are joined; what they say of hits that did not make it is left out.
    """
    charged = [ranking for ranking in rankings if isinstance(ranking, Charged)]
    if not charged:
        return hits
    hidden = {hit.passage.id for ranking in rankings for hit in ranking}
    hidden -= {hit.passage.id for hit in hits}
    meta: dict[str, Any] = {}
    for ranking in charged:
        _join(meta, ranking.meta, hidden)
    return Charged(hits, math.fsum(ranking.cost for ranking in charged), meta)


def _join(into: dict[str, Any], meta: Mapping[str, Any], hidden: set[str]) -> None:
    for key, value in meta.items():
        if isinstance(value, Mapping):
            inner = into.setdefault(key, {})
            if isinstance(inner, dict):
                _join(inner, value, hidden)
        elif isinstance(value, list):
            kept = [v for v in value if not _is_about(v, hidden)]
            if kept and isinstance(known := into.setdefault(key, []), list):
                known += [v for v in kept if v not in known]
        else:
            into.setdefault(key, value)


def _is_about(note: Any, ids: set[str]) -> bool:
    """A note is a passage's id, or a record with it under "id"."""
    passage_id = note.get("id") if isinstance(note, Mapping) else note
    return isinstance(passage_id, str) and passage_id in ids


def _mean(ranks: Sequence[int], mean: Mean) -> Fraction:
    """Return the exact mean, so that equal means are equal whatever they were made of."""
    if mean == "harmonic":
        return len(ranks) / sum((Fraction(1, r) for r in ranks), Fraction(0))
    return Fraction(sum(ranks), len(ranks))
