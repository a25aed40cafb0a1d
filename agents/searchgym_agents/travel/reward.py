"""``travel``: DeepTravel's reward in two levels (arXiv 2509.21842)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from searchgym.rewards import Outcome
from searchgym.text import normalise_answer
from searchgym.types import ToolResult

from .plans import KINDS, Step, clock, fault, minutes_of, money, read_plan


@dataclass(frozen=True)
class TravelReward:
    """Pay a feasible plan the share of its steps whose details the tools have shown, any other 0.

    The plan is checked as a whole first (``plans.fault``: time, space, opening hours, budget); then
    turn by turn: a step is right if a tool's result showed a row of its name with its price and
    time. The paper's verifiers are language models; this form is ours. 0 without an answer, and for
    tasks without a trip.
    """

    registered = "reward:travel"
    systems = ("DeepTravel",)
    ranks = True
    unit = True

    def final(self, outcome: Outcome) -> float:
        if not outcome.answered or "travel" not in outcome.meta:
            return 0.0
        steps = read_plan(outcome.answer)
        if isinstance(steps, str) or fault(outcome.meta["travel"], steps):
            return 0.0
        rows = [
            row for turn in outcome.turns for result in turn.results
            if isinstance(result, ToolResult) for row in result.meta.get("rows", ())
        ]  # fmt: skip
        return details(steps, rows)


def details(steps: Sequence[Step], rows: Sequence[Mapping[str, Any]]) -> float:
    """Share of the steps that some row shows: its name and price; a train's day and departure, a
    visit's time within the hours of opening."""
    return sum(any(_shows(row, step) for row in rows) for step in steps) / len(steps)


def _shows(row: Mapping[str, Any], step: Step) -> bool:
    column = KINDS[step.kind][1]
    if column not in row or normalise_answer(row[column]) != normalise_answer(step.name):
        return False
    if step.price != money(row["price"]):
        return False
    if step.kind == "train":
        return bool(row["day"] == step.day and step.at == clock(row["leaves"]))
    at = minutes_of(step.at)
    return step.kind == "hotel" or (at is not None and row["opens"] <= at < row["closes"])
