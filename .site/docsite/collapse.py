"""What the page "My training collapsed" shows: causes, their signs in words, and what was measured
of trainings that collapse on purpose."""

from __future__ import annotations

from functools import cache
from statistics import fmean
from typing import Any

from searchgym.charts.figure import Figure
from searchgym.charts.panels import multiples
from searchgym.rl import CAUSES
from searchgym.scoring.metrics import RL, label
from searchgym_agents.lab.collapse_results import FRESH, KIND, figures, lines
from searchgym_agents.lab.collapses import declared
from searchgym_agents.lab.results import load, stored

WHAT = {
    "now": "{} is {} {}", "start": "{} was {} {} at first", "rise": "{} has changed by {} {}",
    "ratio": "{} is {} {} times what it was", "least": "{} is {} {} in three updates in a row",
    "most": "{} is {} {} in three updates in a row",
}  # fmt: skip
"""What of a metric a sign compares → how that is said."""
SERIES = ("collapsed", "mended")


@cache
def result() -> dict[str, Any] | None:
    """The stored reproductions; None if none was stored."""
    return load(stored(KIND), KIND) if stored(KIND).exists() else None


def causes() -> list[dict[str, Any]]:
    """Every cause with its signs in words; ``made``: whether a command reproduces it."""
    return [
        {
            "name": name, "meaning": cause.meaning, "remedy": cause.remedy,
            "signs": ["; and ".join(map(_told, one)) for one in cause.signs],
            "unless": [_told(sign) for sign in cause.unless], "made": name in declared(),
        }
        for name, cause in CAUSES.items()
    ]  # fmt: skip


def _told(sign: Any) -> str:
    name = label(sign.metric, RL) if sign.metric in RL else f"`{sign.metric}`"
    return WHAT[sign.what].format(name, sign.side, f"{sign.bound:g}")


def page() -> dict[str, Any]:
    """The page's contents: causes, and the measured table where there is one."""
    found = result()
    made: dict[str, Any] = {"causes": causes(), "result": None}
    if found is not None:
        fresh = [name for name in found[KIND] if name.startswith(FRESH)]
        parts = [
            {**found, KIND: {n: e for n, e in found[KIND].items() if (n in fresh) == later}}
            for later in (False, True)
        ]
        made["result"] = {
            **found, "lines": [*map(lines, parts)], "title": figure(found).title,
            "figures": [figures(found, fresh=fresh) for fresh in (False, True)],
        }  # fmt: skip
    return made


def figure(found: dict[str, Any]) -> Figure:
    """Exact match of each cause's trainings, collapsed and mended."""
    rows: list[dict[str, Any]] = []
    entries = {name: e for name, e in found[KIND].items() if "mended" in e}
    for name, entry in entries.items():
        for series, runs in zip(SERIES, (entry["runs"], entry["mended"]), strict=True):
            curves = [[float(v or 0.0) for v in run["log"]["em"]] for run in runs]
            rows += [
                {"measure": name, "series": series, "x": x, "value": value, "seed": run["seed"]}
                for run, curve in zip(runs, curves, strict=True) for x, value in enumerate(curve)
            ]  # fmt: skip
            rows += [
                {"measure": name, "series": series, "x": x, "mean": fmean(values), "low": None,
                 "high": None, "seeds": len(runs)}
                for x, values in enumerate(zip(*curves, strict=True))
            ]  # fmt: skip
    better = sum(
        fmean(r["end"] for r in e["mended"]) > fmean(r["end"] for r in e["runs"])
        for e in entries.values()
    )
    title = f"The remedy ends higher for {better} of {len(entries)} causes"

    def draw(narrow: bool = False) -> Any:
        names = list(entries)
        return multiples(rows, "update", SERIES, names, rates=names, narrow=narrow)

    return Figure(
        "collapse", title, "Exact match of training episodes. Thin: each seed; thick: their mean.",
        f"A panel for each of {len(entries)} causes, collapsed and mended: {title}.",
        draw, tuple(rows),
    )  # fmt: skip
