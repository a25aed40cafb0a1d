"""Draw README's figure from the run on the agent's page: ``python -m docsite.figure``.

It reads ``agents/searchgym_agents/candidate/expected.json`` and writes ``transfer-light.svg`` and
``transfer-dark.svg`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from searchgym.benchmark import reference_runs
from searchgym.cards import cards, catalog
from searchgym.charts.palette import SCHEMES

HERE = Path(__file__).parent
RUN, BAR, METRIC = "full", "rules", "f1"
"""The run that is drawn, the agent that the trained one is held against, and the measure."""
NAMES: Mapping[str, str] = {
    "held-out world": "unseen names",
    "held-out wording": "and unseen phrasings",
}
"""Rungs in words that need no glossary."""


class Dumbbell(NamedTuple):
    name: str
    real: bool
    rules: float
    trained: float
    low: float
    high: float
    questions: int
    clear: bool
    """True if the whole interval of the difference, on the same questions, is above 0."""


def rows(run: Mapping[str, Any]) -> list[Dumbbell]:
    """A row a rung, generated ones first."""
    trained = run["arguments"][0]
    cells = {(c["rung"], c["agent"]): c for c in run["table"] if c["metric"] == METRIC}
    gaps = {c["rung"]: c["difference"] for c in run["contrasts"] if c["other"] == BAR}
    corpora = cards("corpora")
    dumbbells = []
    for rung in run["rungs"]:
        name, real = rung["name"], rung["kind"] == "real"
        cell = cells[name, trained]
        shown = _heading(corpora[name].folder) if real else NAMES.get(name, name)
        dumbbells.append(Dumbbell(shown, real, cells[name, BAR]["mean"], cell["mean"], cell["low"],
                         cell["high"], cell["questions"], gaps[name]["low"] > 0))  # fmt: skip
    return sorted(dumbbells, key=lambda row: row.real)


def _heading(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def title(dumbbells: list[Dumbbell]) -> tuple[str, str]:
    """Title of the figure, in two lines that hold for whatever was measured."""
    real = [row for row in dumbbells if row.real]
    clear = sum(row.clear for row in real)
    where = f"all {clear}" if clear == len(real) else f"{clear} of {len(real)}"
    return (
        "Trained in invented worlds, the agent clearly",
        f"beats hand-written rules on {where} real sets",
    )


def draw(run: Mapping[str, Any]) -> dict[str, str]:
    """The figure as SVG by colour scheme."""
    import jinja2

    dumbbells = rows(run)
    template = (HERE / "templates" / "dumbbell.svg").read_text(encoding="utf-8")
    seeds = next(c["seeds"] for c in run["table"] if c["agent"] == run["arguments"][0])
    asked = sorted({row.questions for row in dumbbells})
    note = (
        f"{seeds} seeds, {' to '.join(map(str, asked[:: len(asked) - 1 or 1]))} questions; "
        "bold: clearly above"
    )
    return {
        scheme: jinja2.Template(template, trim_blocks=True, lstrip_blocks=True).render(
            rows=dumbbells, title=title(dumbbells), note=note, colour=colours
        )
        for scheme, colours in SCHEMES.items()
    }


def main() -> None:
    """Write both files."""
    folder = catalog("agents") / "candidate"
    for scheme, svg in draw(reference_runs.load(folder / "expected.json")[RUN]).items():
        path = folder / f"transfer-{scheme}.svg"
        path.write_text(svg, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
