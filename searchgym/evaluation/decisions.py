"""Measures of the agent's decisions to refuse and to search, against what was right to decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import EvaluationError
from ..seeding import stream
from .intervals import NOTHING, RESAMPLES, Interval, mean_interval, proportion, wilson
from .metrics import Row, column
from .samples import by_question

SOLVABLE = 0.5
"""Share of closed-book samples that must be right for a question to count as known. AdaSearch
(arXiv 2512.16883) does not state its own; it samples the policy as well."""


class Confusion(NamedTuple):
    """Counts of questions, by what was decided and what was right to decide."""

    hits: int
    """Number of positive decisions that were right."""
    false_alarms: int
    """Number of positive decisions that were wrong."""
    missed: int
    """Number of negative decisions where a positive one would have been right."""
    rejected: int
    """Number of negative decisions that were right."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Confusion:
        """Count pairs (decided, should have been), one for each question."""
        counts = [0, 0, 0, 0]
        for decided, should in pairs:
            counts[(0 if should else 1) if decided else (2 if should else 3)] += 1
        return cls(*counts)

    @property
    def n(self) -> int:
        return sum(self)

    @property
    def precision(self) -> Interval:
        """Share of the decisions made that were right, with Wilson's interval."""
        return proportion(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> Interval:
        """Share of the questions calling for it where it was made, with Wilson's interval."""
        return proportion(self.hits, self.hits + self.missed)

    @property
    def false_alarm_rate(self) -> Interval:
        """Share of the other questions where it was made, with Wilson's interval."""
        return proportion(self.false_alarms, self.false_alarms + self.rejected)

    def f1(self, *, seed: int = 0, level: float = 0.95, resamples: int = RESAMPLES) -> Interval:
        """2 · hits / (2 · hits + false alarms + missed); percentile interval over questions.

        NaN where there was nothing to decide and nothing was; 0 where nothing was decided rightly,
        with Wilson's bound of the share of hits h among the k questions at stake turned into F1 by
        2h / (1 + h).
        """
        stake = self.hits + self.false_alarms + self.missed
        if not stake:
            return NOTHING
        value = 2 * self.hits / (stake + self.hits)
        if self.hits in (0, stake):  # a bootstrap of equal values has no width
            low, high = (2 * h / (1 + h) for h in wilson(self.hits, stake, level))
            return Interval(value, low, high, self.n, "wilson")
        rng = stream(seed, "f1", *self)
        drawn = rng.multinomial(self.n, np.array(self) / self.n, size=resamples)[:, :3]
        hits, at_stake = drawn[:, 0], drawn.sum(axis=1)
        known = at_stake > 0
        f1 = 2 * hits[known] / (at_stake + hits)[known]
        low, high = np.quantile(f1, [(1 - level) / 2, (1 + level) / 2])
        return Interval(value, float(low), float(high), self.n, "percentile")


class Abstention(NamedTuple):
    """Refusals on a set that mixes questions with and without an answer."""

    refusals: Confusion
    """Confusion of having refused against having had to refuse. Its ``precision`` says how far a
    refusal can be trusted, ``recall`` how many unanswerable questions were caught,
    ``false_alarm_rate`` how many answerable ones were given up."""
    answered: Interval
    """Mean metric over the answerable questions that were not refused (selective accuracy)."""
    invented: int
    """Unanswerable questions that got an answer; the rest of the missed ended without one."""


def abstention(rows: Sequence[Row], metric: str = "em") -> Abstention:
    """Count how well refusals fall on the questions that have no answer.

    Refusing everything has recall 1 and false-alarm rate 1; never refusing has recall 0. Episodes
    lost to the infrastructure do not count.
    """
    kept = [row for row in rows if not row.infra_error]
    tried = [row for row in kept if not row.abstained and not row.should_abstain]
    return Abstention(
        Confusion.of((row.abstained, row.should_abstain) for row in kept),
        mean_interval(column(tried, metric), unit=True),
        sum(r.should_abstain and not r.abstained and r.end == "answered" for r in kept),
    )


def solvable(
    closed_book: Sequence[Row], threshold: float = SOLVABLE, metric: str = "em"
) -> dict[str, bool]:
    """Task id → whether the agent knows the answer without searching: at least ``threshold`` of its
    closed-book samples are right (metric 1). Questions of which every sample was lost are left out.

    Raises:
        EvaluationError: an episode that searched, so it was not closed-book.
    """
    for row in closed_book:
        if row.searches:
            raise EvaluationError(
                f"{row.task_id!r} was searched for {row.searches} times; closed-book samples come "
                "from evaluate(…, search_enabled=False) or 'searchgym eval --closed-book only'"
            )
    groups = by_question(closed_book, metric)
    known = {task: [v >= 1 for v in values if v == v] for task, values in groups.items()}
    return {task: sum(v) / len(v) >= threshold for task, v in known.items() if v}


def knowledge_boundary(rows: Sequence[Row], known: Mapping[str, bool]) -> Confusion:
    """Confusion of not searching against knowing the answer; its ``f1`` is AdaSearch's F1_aware.

    An agent that always searches scores 0, one that searches exactly where it must scores 1.
    ``known`` is :func:`solvable` of the same agent. Episodes lost to the infrastructure, or on
    questions whose closed-book samples were, do not count.

    Raises:
        EvaluationError: none of the questions is in ``known``.
    """
    kept = [row for row in rows if not row.infra_error and row.task_id in known]
    if rows and not kept:
        raise EvaluationError(
            "no question has closed-book samples; sample the same questions with search off"
        )
    return Confusion.of((row.searches == 0, known[row.task_id]) for row in kept)
