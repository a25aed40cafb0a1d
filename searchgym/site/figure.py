"""Draw README's figure from the stored run of the ladder: ``python -m searchgym.site.figure``.

It reads ``agents/candidate/expected.json`` and writes ``transfer-light.svg`` and
``transfer-dark.svg`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmark import expected
from ..cards import cards, catalog
from ..charts.palette import SCHEMES

HERE = Path(__file__).parent
RUN, BAR, METRIC = "ladder", "rules", "f1"
"""The run that is drawn, the agent that the trained one is held against, and the measure."""
NAMES: Mapping[str, str] = {
    "source world": "its own world",
    "held-out world": "unseen names",
    "held-out wording": "and unseen phrasings",
    "other schema": "another kind of world",
    "noisy engine": "noisy search results",
    "hostile engine": "misleading pages planted",
    "dense engine": "dense search",
    "hybrid engine": "hybrid search",
    "simulated engine": "a model plays the engine",
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
    """Return True if the trained agent's interval lies above that of the rules."""


def rows(run: Mapping[str, Any]) -> list[Dumbbell]:
    """A row a rung, generated ones first; those that repeat another's questions are left out."""
    trained = run["arguments"][0]
    cells = {(c["rung"], c["agent"]): c for c in run["table"] if c["metric"] == METRIC}
    corpora = cards("corpora")
    dumbbells = []
    for rung in run["rungs"]:
        name, real = rung["name"], rung["kind"] == "real"
        if ": " in name:  # "remote engine: hotpotqa" asks hotpotqa's questions again
            continue
        cell, rule = cells[name, trained], cells[name, BAR]
        shown = _heading(corpora[name].folder) if real else NAMES.get(name, name)
        dumbbells.append(Dumbbell(shown, real, rule["mean"], cell["mean"], cell["low"],
                         cell["high"], cell["questions"], cell["low"] > rule["high"]))  # fmt: skip
    return sorted(dumbbells, key=lambda row: row.real)


def _heading(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def title(dumbbells: list[Dumbbell]) -> tuple[str, str]:
    """Title of the figure, in two lines that hold for whatever was measured."""
    real = [row for row in dumbbells if row.real]
    better = sum(row.trained > row.rules for row in real)
    where = f"all {better}" if better == len(real) else f"{better} of {len(real)}"
    return (
        "Trained only in invented worlds, the agent",
        f"scores above rules on {where} real question sets",
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
    for scheme, svg in draw(expected.load(folder / "expected.json")[RUN]).items():
        path = folder / f"transfer-{scheme}.svg"
        path.write_text(svg, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
