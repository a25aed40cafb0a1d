"""What an interval of a gain says."""

from __future__ import annotations

from searchgym.evaluation import Interval


def verdict(gain: Interval) -> str:
    if gain.low > 0:
        return "it pays"
    return "it costs" if gain.high < 0 else "no difference shown"
