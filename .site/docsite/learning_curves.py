"""What the page of learning curves shows: trainings of small learners in environments of tools, and
what scripts earn there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from searchgym.benchmark import reference_runs
from searchgym.cards import catalog
from searchgym.charts.figure import Figure
from searchgym.charts.panels import multiples
from searchgym_agents.macros.curves import curves

from .scores import FILE

SCRIPTS = ("oracle", "rules", "random")
LEARNER = "learner"


def scripts(env: str) -> dict[str, float]:
    """Mean reward of each script on an environment's split "test", as it is stored there."""
    folder = catalog("envs") / f"{env.partition('-')[0]}-v0"
    table = reference_runs.load(folder / FILE)["scripted"]["table"]
    cells = {(cell["agent"], cell["metric"]): cell["mean"] for cell in table}
    return {name: cells.get((name, "reward"), cells[name, "em"]) for name in SCRIPTS}


def page() -> list[dict[str, Any]]:
    """A row an environment: what was measured, and the last test of each seed."""
    return [
        {"env": env, "name": env.partition("-")[0], **made, "scripts": scripts(env),
         "updates": len(next(iter(made["seeds"].values()))["train"]),
         "ends": [seed["test"][-1][1:] for seed in made["seeds"].values()]}
        for env, made in curves().items()
    ]  # fmt: skip


def title() -> str:
    """The finding, true of whatever was measured."""
    rows = page()
    above = [
        row for row in rows
        if all(low > max(row["scripts"]["rules"], row["scripts"]["random"], row["uniform"])
               for _, low, _ in row["ends"])
    ]  # fmt: skip
    least = min(len(row["ends"]) for row in rows)
    return (
        f"In {len(above)} of {len(rows)} environments all {least} seeds end clearly above rules, "
        "random actions and uniform choices"
    )


def figure() -> Figure:
    """Reward of each update's episodes, seed by seed, and the scripts as lines."""
    rows = [row for env, made in curves().items() for row in _marks(env, made)]
    names = [*curves()]

    def draw(narrow: bool = False) -> Any:
        return multiples(rows, "update", (LEARNER, *SCRIPTS), names, rates=names, narrow=narrow)

    return Figure(
        "learning", title(),
        "Mean reward of the episodes of each update, on training questions, choices drawn. Thin: "
        "each seed; thick: their mean. Lines: scripts on test questions.",
        f"A panel for each of {len(names)} environments, reward against updates: {title()}.",
        draw, tuple(rows),
    )  # fmt: skip


def _marks(env: str, made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    seeds = {seed: one["train"] for seed, one in made["seeds"].items()}
    for seed, curve in seeds.items():
        for x, value in enumerate(curve, 1):
            yield {"measure": env, "series": LEARNER, "x": x, "value": value, "seed": seed}
    last = 0
    for last, values in enumerate(zip(*seeds.values(), strict=True), 1):
        yield {"measure": env, "series": LEARNER, "x": last, "mean": fmean(values), "low": None,
               "high": None}  # fmt: skip
    for name, mean in scripts(env).items():
        for x in (1, last):
            yield {"measure": env, "series": name, "x": x, "mean": mean, "low": None,
                   "high": None}  # fmt: skip
