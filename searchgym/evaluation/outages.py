"""Episodes lost to the infrastructure, by number of searches.

Agents that search more meet more outages. Dropping those episodes is right (they say nothing about
the agent) and still tilts what is left towards agents that search less; so they are counted, and
compared with what the retry policy alone explains: a call is lost if all its tries fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .metrics import Row, infra_by_searches


class Lost(NamedTuple):
    """Outcome of the n-th search."""

    searches: int
    reached: int
    """Episodes that ran at least so many searches."""
    lost: int
    """Episodes that ended there because the infrastructure failed."""
    share: float
    """``lost / reached``."""
    expected: float
    """Failure rate of single tries, over all rows, to the power of the tries a call has."""


def lost_by_searches(rows: Sequence[Row], max_retries: int) -> list[Lost]:
    """One entry per number of searches from 1, ascending; empty without searches.

    The share of a row speaks of that search alone, so it stays level however many searches went
    before; ``expected`` holds for failures that strike tries independently. ``max_retries`` is the
    rules' (``Rules.max_retries``).
    """
    counts = infra_by_searches(rows)
    expected = failure_rate(rows) ** (max_retries + 1)
    reached = sum(ended for n, (_, ended) in counts.items() if n)
    out = []
    for n in range(1, max(counts, default=0) + 1):
        lost, ended = counts.get(n, (0, 0))
        out.append(Lost(n, reached, lost, lost / reached, expected))
        reached -= ended
    return out


def failure_rate(rows: Sequence[Row]) -> float:
    """Share of the tries of search calls that failed; NaN without searches.

    Every failure was retried or ended its episode, so failures = retries + lost episodes and
    tries = searches + retries. (Opened pages are not told apart; with them this is an estimate.)
    """
    retries = sum(row.retries for row in rows)
    tries = sum(row.searches for row in rows) + retries
    failures = retries + sum(row.infra_error for row in rows)
    return failures / tries if tries else float("nan")
