"""What the site shows of the laboratory's results besides their tables: figures and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.charts.figure import Figure
from searchgym.charts.forest import forest
from searchgym_agents.lab.gradient_results import SIZE, SUCCESS, row_of
from searchgym_agents.lab.gradient_results import lines as gradient_lines
from searchgym_agents.lab.learning_results import GOAL, NOTHING, episodes, row
from searchgym_agents.lab.methods import BROKEN, MOST_USED

DRAWN = 16
"""Most methods in a figure: of more, the most used are drawn."""


def gradients(result: Mapping[str, Any], size: int = SIZE, success: float = SUCCESS) -> Figure:
    """Direction of one step, and signal by cost, of every method."""
    facets = {
        "Cosine with the true gradient": "step_cosine",
        "Signal-to-noise per 100 calls": "per_call",
    }
    ordered = [line["method"] for line in gradient_lines(result, size, success)]
    marks = []
    for facet, measure in facets.items():
        for name in ordered:
            row = row_of(result, name, size, success)
            row = row or row_of(result, f"advantage:{name}", size, success)
            assert row is not None
            mean, low, high = row[measure]
            if mean is not None:
                exact = row["enumerated"] and measure != "step_cosine"
                ends = (None, None) if exact else (low, high)
                marks.append({"y": name, "by": "gradient", "facet": facet, "mean": mean,
                              "low": ends[0], "high": ends[1]})  # fmt: skip
    title = _finding(result, ordered, size, success)

    def draw(narrow: bool = False) -> Any:
        return forest(
            marks,
            by=["gradient"],
            x_title="",
            rate=False,
            columns=2,
            width=240,
            narrow=narrow,
        )

    return Figure(
        "lab-gradients", title,
        f"Of one step's gradient: a group of {size} for each of three questions, whose every "
        f"trajectory is known, under a policy that is right in {success:.0%} of its episodes. "
        "Marks are means, lines 95 % intervals; enumerated numbers have none.",
        f"A list of {len(ordered)} methods with two numbers each: {title}.",
        draw, tuple(marks),
    )  # fmt: skip


def _finding(result: Mapping[str, Any], ordered: Sequence[str], size: int, success: float) -> str:
    """The figure's title, true of whatever was measured."""
    row = row_of(result, ordered[0], size, success) or row_of(
        result, f"advantage:{ordered[0]}", size, success
    )
    assert row is not None
    text = f"One step of {ordered[0]} has a cosine of {row['step_cosine'][0]:z.2f} with the true "
    text += "gradient"
    broken = row_of(result, BROKEN, size, success)
    grpo = row_of(result, "grpo", size, success)
    if broken is not None and grpo is not None:
        text += f", one of GRPO {grpo['step_cosine'][0]:z.2f}, and with its turns shuffled "
        text += f"{broken['step_cosine'][0]:z.2f}"
    return text


def sentence(result: Mapping[str, Any], name: str) -> str:
    """Sentence on what the bench measured of a method, with intervals, date and versions."""
    r = row(result["methods"][name])
    area, end, searches = (_between(r[n]) for n in ("area", "end", "searches"))
    goal = f"{r['reached']} of {r['seeds']} seeds reach an exact match of {GOAL:g}"
    if r["to_goal"] is not None:
        goal += f" after {episodes(r['to_goal'])} episodes"
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


def learning(result: Mapping[str, Any]) -> Figure:
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
