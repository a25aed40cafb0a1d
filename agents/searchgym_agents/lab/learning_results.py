"""Results of the learning bench: numbers of a training, intervals over seeds, table and figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.charts.figure import Figure
from searchgym.charts.forest import forest
from searchgym.evaluation.intervals import over_seeds

from .methods import BROKEN, MOST_USED

GOAL = 0.5
"""Exact match of which the episodes are counted that it takes to get there."""
NOTHING = 0.02
"""Exact match at the end of a training up to which nothing was learnt."""
SMOOTH = 5
"""Steps whose mean must reach the goal."""
DRAWN = 16
"""Most methods in a figure: of more, the most used are drawn."""
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
            "to EM .5": _episodes(r["to_goal"]),
            "seeds": f"{r['reached']} of {r['seeds']}", "at 0": str(r["collapsed"] or ""),
            "searches": _shown_as(r["searches"]),
        }
        for name, r in sorted(rows.items(), key=lambda item: -item[1]["area"][0])
    ]  # fmt: skip


def _shown_as(value: Sequence[float]) -> str:
    mean, low, high = value
    return re.sub(r"\b0\.", ".", f"{mean:z.2f} ±{(high - low) / 2:.2f}")


def _episodes(goal: Sequence[float] | None) -> str:
    if goal is None:
        return "never"
    mean, low, high = goal
    return f"{mean:.0f} ±{(high - low) / 2:.0f}" if high > low else f"{mean:.0f}"


def sentence(result: Mapping[str, Any], name: str) -> str:
    """Sentence on what the bench measured of a method, with intervals, date and versions."""
    r = row(result["methods"][name])
    area, end, searches = (_between(r[n]) for n in ("area", "end", "searches"))
    goal = f"{r['reached']} of {r['seeds']} seeds reach an exact match of {GOAL:g}"
    if r["to_goal"] is not None:
        goal += f" after {_episodes(r['to_goal'])} episodes"
    if r["collapsed"]:
        goal += f"; {r['collapsed']} of {r['seeds']} seeds end at {NOTHING:g} or less"
    return (
        f"mean exact match while learning {area}, at the end {end}; {goal}; {searches} searches at "
        f"the end. {r['seeds']} seeds, 95 % intervals, {result['date']}, "
        f"SearchGym {result['searchgym']}, torch {result['torch']}"
    )


def _between(value: Sequence[float]) -> str:
    mean, low, high = value
    return f"{mean:z.2f} [{low:z.2f}, {high:z.2f}]"


def drawn(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Method → its numbers, of all, or of the most used where there are more than ``DRAWN``."""
    methods = result["methods"]
    names = methods if len(methods) <= DRAWN else [name for name in MOST_USED if name in methods]
    return {name: row(methods[name]) for name in names}


def apart(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """Method → the methods whose interval of the area lies wholly below its own, of those that are
    drawn; both from the largest area to the least."""
    areas = {name: numbers["area"] for name, numbers in drawn(result).items()}
    ordered = sorted(areas, key=lambda name: -areas[name][0])
    return {
        name: [other for other in ordered if areas[other][2] < areas[name][1]] for name in ordered
    }


def figure(result: Mapping[str, Any]) -> Figure:
    """Area under the curve of the methods that are drawn, seeds as rings."""
    rows = drawn(result)
    ordered = sorted(rows, key=lambda name: -rows[name]["area"][0])
    marks = [
        {"y": name, "by": "area", "mean": r[0], "low": r[1], "high": r[2]}
        for name in ordered
        for r in (rows[name]["area"],)
    ]
    rings = [
        {"y": name, "by": "area", "value": run["area"], "seed": seed}
        for name in ordered
        for seed, run in enumerate(result["methods"][name]["runs"])
    ]
    first, rest = ordered[0], ordered[1:]
    ahead = all(rows[other]["area"][2] < rows[first]["area"][1] for other in rest)
    title = f"{first} learns fastest" if ahead else "No method is surely the fastest learner"
    if BROKEN in rest and rest[-1] == BROKEN:
        title += "; GRPO with its turns shuffled learns least"

    def draw(narrow: bool = False) -> Any:
        return forest(
            marks, rings, by=["area"], x_title="mean exact match while learning", narrow=narrow
        )

    return Figure(
        "lab-learning", title,
        "Exact match, averaged over a training; mark and line: mean and 95 % interval over seeds, "
        "rings: each seed.",
        f"A list of {len(ordered)} methods with their mean exact match while learning: {title}.",
        draw, tuple(marks),
    )  # fmt: skip
