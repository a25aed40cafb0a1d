"""Results of the learning bench: numbers of a training, intervals over seeds, table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.evaluation.intervals import over_seeds

GOAL = 0.5
"""Exact match of which the episodes are counted that it takes to get there."""
NOTHING = 0.02
"""Exact match at the end of a training up to which nothing was learnt."""
SMOOTH = 5
"""Steps whose mean must reach the goal."""
LEGEND = (
    "area: mean exact match over all steps; to EM .5: episodes until five steps' mean reaches it "
    "(of the seeds that do); end, searches: means of the last five steps; at 0: seeds that end at "
    f"an exact match of {NOTHING:g} or less"
)


def summary(curve: Sequence[Sequence[float]]) -> dict[str, float | None]:
    """``area``, mean exact match by episode; ``to_goal``, episodes until ``SMOOTH`` steps' mean
    exact match reaches ``GOAL``, None where it never does; ``end`` and ``searches`` of the last
    steps."""
    episodes = [point[0] - before for point, before in zip(
        curve, [0.0, *(p[0] for p in curve)], strict=False)]  # fmt: skip
    area = sum(n * point[1] for n, point in zip(episodes, curve, strict=True)) / curve[-1][0]
    to_goal = None
    for i in range(SMOOTH - 1, len(curve)):
        if sum(point[1] for point in curve[i - SMOOTH + 1 : i + 1]) / SMOOTH >= GOAL:
            to_goal = curve[i][0]
            break
    last = curve[-SMOOTH:]
    return {
        "area": area, "to_goal": to_goal,
        "end": sum(p[1] for p in last) / len(last), "searches": sum(p[2] for p in last) / len(last),
    }  # fmt: skip


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over seeds, by Student's t."""
    mean, low, high, *_ = over_seeds(values)
    return mean, low, high


def row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A method's numbers over its seeds: ``area``, ``end`` and ``searches`` with intervals,
    ``to_goal`` of those that reach it, how many do, and how many have learnt nothing
    (``collapsed``)."""
    runs = entry["runs"]
    reached = [run["to_goal"] for run in runs if run["to_goal"] is not None]
    made: dict[str, Any] = {
        name: interval([run[name] for run in runs]) for name in ("area", "end", "searches")
    }
    made["to_goal"] = interval(reached) if reached else None
    collapsed = sum(run["end"] <= NOTHING for run in runs)
    return {**made, "reached": len(reached), "seeds": len(runs), "collapsed": collapsed}


def lines(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the table, largest area first."""
    rows = {name: row(entry) for name, entry in result["methods"].items()}
    return [
        {
            "method": name, "area": _shown_as(r["area"]), "end": _shown_as(r["end"]),
            "to EM .5": episodes(r["to_goal"]),
            "seeds": f"{r['reached']} of {r['seeds']}", "at 0": str(r["collapsed"] or ""),
            "searches": _shown_as(r["searches"]),
        }
        for name, r in sorted(rows.items(), key=lambda item: -item[1]["area"][0])
    ]  # fmt: skip


def _shown_as(value: Sequence[float]) -> str:
    mean, low, high = value
    return re.sub(r"\b0\.", ".", f"{mean:z.2f} ±{(high - low) / 2:.2f}")


def episodes(goal: Sequence[float] | None) -> str:
    """Mean episodes to the goal, with half the interval where it has one."""
    if goal is None:
        return "never"
    mean, low, high = goal
    return f"{mean:.0f} ±{(high - low) / 2:.0f}" if high > low else f"{mean:.0f}"
