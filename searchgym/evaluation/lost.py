"""Episodes lost to the infrastructure, by number of searches.

Whoever searches more meets more outages. Dropping those episodes is right (they say nothing about
the agent) and still tilts what is left towards agents that search less; so they are counted, and
compared with what the retry policy alone explains: a call is lost if all its tries fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .metrics import Row


class Lost(NamedTuple):
    """What happened at the n-th search."""

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
    """One entry per number of searches from 1, ascending; empty where nobody searched.

    The share of a row speaks of that search alone, so it stays level however many searches went
    before; ``expected`` holds for failures that strike tries independently. ``max_retries`` is the
    rules' (``Rules.max_retries``).
    """
    most = max((row.searches for row in rows), default=0)
    ended = [0] * (most + 2)
    lost = [0] * (most + 2)
    for row in rows:
        ended[row.searches] += 1
        lost[row.searches] += row.infra_error
    rate = failure_rate(rows)
    out = []
    reached = sum(ended[1:])
    for n in range(1, most + 1):
        share = lost[n] / reached if reached else float("nan")
        out.append(Lost(n, reached, lost[n], share, rate ** (max_retries + 1)))
        reached -= ended[n]
    return out


def failure_rate(rows: Sequence[Row]) -> float:
    """Share of the tries of search calls that failed; NaN where nobody searched.

    Every failure was retried or ended its episode, so failures = retries + lost episodes and
    tries = searches + retries. (Opened pages are not told apart; with them this is an estimate.)
    """
    retries = sum(row.retries for row in rows)
    tries = sum(row.searches for row in rows) + retries
    failures = retries + sum(row.infra_error for row in rows)
    return failures / tries if tries else float("nan")
