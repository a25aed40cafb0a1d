"""Stored results of the laboratory and of the law of transfer: rows, tables and figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from searchgym_agents.lab import gradient_results, learning_results
from searchgym_agents.lab.methods import methods
from searchgym_agents.lab.orderings.results import KIND, sentences
from searchgym_agents.lab.orderings.verdicts import VERDICTS
from searchgym_agents.lab.results import load, stored
from searchgym_agents.law import law

from . import collapse, lab_figures, learning_curves


@cache
def gradients() -> dict[str, Any] | None:
    """The stored table of gradients; None if none was stored."""
    return load(stored("gradients")) if stored("gradients").exists() else None


@cache
def learning() -> dict[str, Any] | None:
    """The stored result of the learning bench; None if none was stored."""
    return load(stored("learning")) if stored("learning").exists() else None


def orderings() -> dict[str, Any] | None:
    """The stored table of orderings, with each one's declaration, verdict and rows; None if none
    was stored."""
    if not stored("orderings").exists():
        return None
    result = load(stored("orderings"), KIND)
    told = sentences(result)
    counts = {v: sum(one["verdict"] == v for one in told) for v in VERDICTS}
    return {**result, "told": told, "counts": counts}


def of_recipe(name: str) -> dict[str, Any]:
    """Return what was measured of a recipe: ``gradients``, rows as lists of cells by group size and
    success rate; ``same_as``; ``learning``, a sentence; "" or empty where it was not measured."""
    measured: dict[str, Any] = {"gradients": [], "same_as": "", "learning": ""}
    if (result := gradients()) is not None:
        measured["same_as"] = result["methods"].get(name, {}).get("same_as", "")
        for row in gradient_results.rows_of(result, name):
            cells = [gradient_results.cell(row, m) for m in gradient_results.HEADS]
            measured["gradients"].append([str(row["size"]), f"{row['success']:g}", *cells])
    if (result := learning()) is not None and name in result["methods"]:
        measured["learning"] = lab_figures.sentence(result, name)
    return measured


def heads() -> list[str]:
    """Heads of the columns of :func:`of_recipe`'s rows."""
    return ["group", "success", *gradient_results.HEADS.values()]


def tables() -> dict[str, Any]:
    """The results for the page: rows, date and versions."""
    made: dict[str, Any] = {"gradients": None, "learning": None, "orderings": orderings()}
    if (result := gradients()) is not None:
        rows = gradient_results.lines(result)
        twins = {n: f["same_as"] for n, f in result["methods"].items() if "same_as" in f}
        waiting = [name for name in methods() if name not in result["methods"]]
        made["gradients"] = {**result, "lines": rows, "twins": twins, "waiting": waiting,
                             "title": lab_figures.gradients(result).title}  # fmt: skip
    if (result := learning()) is not None:
        rows = learning_results.lines(result)
        made["learning"] = {
            **result, "lines": rows, "title": lab_figures.learning(result).title,
            "apart": lab_figures.apart(result),
        }  # fmt: skip
    return made


def draw(folder: Path) -> None:
    """Write every figure, light and dark, into subfolders."""
    figures = [
        ("lab", made(result))
        for made, result in (
            (lab_figures.gradients, gradients()), (lab_figures.learning, learning()),
        )
        if result is not None
    ]  # fmt: skip
    if (result := law.stored_results()) is not None:
        figures.append(("law", law.figure(law.played(result), result["finding"])))
    if (made := collapse.result()) is not None:
        figures.append(("collapse", collapse.figure(made)))
    figures.append(("learning", learning_curves.figure()))
    for name, figure in figures:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            path = folder / name / f"{figure.name}-{scheme}.svg"
            path.write_text(figure.svg(scheme), encoding="utf-8")
