"""Decisions of agents to refuse and to search, against what was right to decide; and the closed
book, how many of the questions an agent answers without tools: a score of a search agent says
little without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from ..envs.search import SearchEnv
from ..errors import EvaluationError, check_known
from ..plugins import is_shipped
from ..seeding import stream
from ..types import Agent
from .intervals import NOTHING, RESAMPLES, TAILS, Interval, mean_interval, proportion, wilson
from .metrics import Row, column
from .result import EvalResult
from .summaries import by_question

Mode = Literal["auto", "both", "only", "none"]
CLOSED_BOOK = ("em", "f1", "cover_em", "judge")
"""Measures of the closed book that are kept beside a result."""
SOLVABLE = 0.5
"""Share of closed-book samples that must be right for a question to count as known. AdaSearch
(arXiv 2512.16883) does not state its own; it samples the policy as well."""


class Confusion(NamedTuple):
    """Counts of questions, by what was decided and what was right to decide: positive decisions
    that were right and wrong, negative ones that were wrong and right."""

    hits: int
    false_alarms: int
    missed: int
    rejected: int

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
        """Share of the decisions made that were right (Wilson's interval)."""
        return proportion(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> Interval:
        """Share of the questions calling for it where it was made, with Wilson's interval."""
        return proportion(self.hits, self.hits + self.missed)

    @property
    def false_alarm_rate(self) -> Interval:
        """Share of the other questions where it was made, with Wilson's interval."""
        return proportion(self.false_alarms, self.false_alarms + self.rejected)

    def f1(self, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
        """2 · hits / (2 · hits + false alarms + missed); percentile interval over questions, or,
        where all or none of those at stake are hits, Wilson's. NaN where nothing was at stake."""
        stake = self.hits + self.false_alarms + self.missed
        if not stake:
            return NOTHING
        value = 2 * self.hits / (stake + self.hits)
        if self.hits in (0, stake):  # a bootstrap of equal values has no width
            low, high = (2 * h / (1 + h) for h in wilson(self.hits, stake))
            return Interval(value, low, high, self.n, "wilson")
        rng = stream(seed, "f1", *self)
        drawn = rng.multinomial(self.n, np.array(self) / self.n, size=resamples)[:, :3]
        hits, at_stake = drawn[:, 0], drawn.sum(axis=1)
        known = at_stake > 0
        f1 = 2 * hits[known] / (at_stake + hits)[known]
        low, high = np.quantile(f1, TAILS)
        return Interval(value, float(low), float(high), self.n, "percentile")


class Abstention(NamedTuple):
    """Refusals on a set that mixes questions with and without an answer."""

    refusals: Confusion
    """Having refused against having had to; ``false_alarm_rate``: answerable ones given up."""
    answered: Interval
    """Mean metric over the answerable questions that were not refused (selective accuracy)."""
    invented: int
    """Unanswerable questions that got an answer; the rest of the missed ended without one."""


def abstention(rows: Sequence[Row], metric: str = "em") -> Abstention:
    """Count how well refusals fall on the questions that have no answer; episodes lost to the
    infrastructure do not count."""
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
    """Confusion of not searching against knowing the answer; its ``f1`` is AdaSearch's F1_aware: 0
    for an agent that always searches, 1 for one that searches exactly where it must.

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


def plays(mode: str, agent: Agent, env: SearchEnv) -> tuple[bool, bool]:
    """Return a pair (with tools, closed book) that says what is played.

    ``"auto"`` plays both where asking again is free, and only with tools where it may cost money:
    with agents that count their usage (model servers) and with foreign ones, unless they say
    ``free = True``. An environment without tools is closed-book already.

    Raises:
        EvaluationError: an unknown mode.
    """
    check_known("way with the closed book", get_args(Mode), mode, error=EvaluationError)
    if not (env.rules.tools and env.search_enabled):
        return True, False
    if mode == "auto":
        return True, costs_nothing(agent)
    return mode != "only", mode in ("both", "only")


def costs_nothing(agent: Agent) -> bool:
    """Check whether an agent says that asking it is free, or is one of ours and counts no usage."""
    ours = is_shipped(type(agent).__module__)
    return bool(getattr(agent, "free", ours and not hasattr(agent, "usage")))


def beside(result: EvalResult, closed: EvalResult) -> EvalResult:
    """The result with the closed book's means in it."""
    return replace(result, closed_book={name: closed.means[name] for name in CLOSED_BOOK})


def boundary(opened: Sequence[Row], closed: Sequence[Row]) -> Confusion | None:
    """Return :func:`knowledge_boundary` over the answerable questions; None if the agent answers
    none of them by heart, so that there is no boundary."""
    known = solvable([row for row in closed if not row.should_abstain])
    if not any(known.values()):
        return None
    return knowledge_boundary([row for row in opened if not row.should_abstain], known)
