"""``searchgym lab``: what training methods' gradients are worth, how fast each one learns, and
which published orderings hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import CardError, unknown
from .output import JsonFlag, examples, print_json, print_table, progress, say

SEEDS = 5
LEGEND = (
    "expected, one step: cosine with the true gradient of the expected gradient, and of one step's "
    "on average; bias, variance: relative to the useful length; then signal-to-noise per cost"
)


def lab(
    methods: Annotated[
        list[str] | None,
        typer.Argument(help="Recipes, or 'broken'; or orderings. Default: twelve of them, or all."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All methods.")] = False,
    learn: Annotated[
        bool, typer.Option("--learn", help="Train a small language model by each method instead.")
    ] = False,
    orderings: Annotated[
        bool, typer.Option("--orderings", help="Test published orderings of methods instead.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="With --orderings: begin no piece after so many.")
    ] = None,
    size: Annotated[int, typer.Option(help="Group size of the rows shown: 4, 8 or 16.")] = 8,
    success: Annotated[float, typer.Option(help="Success rate shown: .1, .4 or .8.")] = 0.4,
    steps: Annotated[
        int | None, typer.Option(help="Steps drawn where many are computed at once.")
    ] = None,
    few: Annotated[
        int | None, typer.Option(help="Steps drawn where each is a batch of its own.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each method, with --learn.")] = SEEDS,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Result file; the same command resumes from it."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Folder for the figure: PNG, SVG, CSV and JSON.")
    ] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Show the shipped result.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare methods' gradients with the true one, in a task whose every trajectory is known.

    Takes minutes: rows are kept in --out as they are made. With --learn, a language model of a
    hundred thousand parameters is trained by each method instead. With --orderings, what papers
    found of two methods is measured again, and the table says whether it holds here.
    """
    from ..lab import learn as learning
    from ..lab import learning_results as learnt
    from ..lab.gradient_results import figure as drawn
    from ..lab.gradient_results import lines, measure
    from ..lab.methods import DEFAULT, MOST_USED, learners
    from ..lab.methods import methods as measurable
    from ..lab.results import load
    from ..lab.results import stored as shipped

    if every and methods:
        raise CardError("name methods or give --all, not both")
    if orderings:
        if learn or every or figure is not None:
            raise CardError("--orderings goes with names, --minutes, --out, --stored and --json")
        _orderings(methods, out, minutes, stored, as_json)
        return
    if minutes is not None:
        raise CardError("--minutes goes with --orderings")
    known, usual = (learners, MOST_USED) if learn else (measurable, DEFAULT)
    names = list(methods or (known() if every else usual))
    if stored and (steps or few or out or seeds != SEEDS):
        raise CardError("--stored measures nothing: leave --steps, --few, --seeds, --out away")
    with progress("measuring", None if stored else len(names), "methods") as bar:
        if stored:
            result = load(shipped("learning" if learn else "gradients"))
            if methods:
                result = {**result, "methods": _chosen(result["methods"], methods)}
        elif learn:
            result = learning.bench(names, out, seeds=seeds, progress=lambda name: bar(1))
        else:
            result = measure(names, out, steps=steps, few=few, progress=lambda name: bar(1))
    if as_json:
        print_json(result)
        return
    rows: list[dict[str, Any]] = learnt.lines(result) if learn else lines(result, size, success)
    if not rows:
        measured = result["settings"]
        raise CardError(
            f"nothing was measured at size {size} and success {success}: sizes are "
            f"{_listed(measured['sizes'])}, success rates {_listed(measured['successes'])}"
        )
    if learn:
        print_table("Learning: mean and 95 % interval over seeds", rows)
        say(learnt.LEGEND)
    else:
        print_table(f"Gradients of one step, groups of {size}, success {success:g}", rows)
        say(LEGEND)
        for name, found in result["methods"].items():
            if "same_as" in found:
                say(f"{name}: as {found['same_as']} at a step's first update")
    if figure is not None:
        made = learnt.figure(result) if learn else drawn(result, size, success)
        say(str(made.save(figure)["png"]))


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _chosen(measured: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The methods asked for, and those that they are the same as.

    Raises:
        CardError: nothing is stored of one.
    """
    for name in names:
        if name not in measured:
            raise CardError(unknown("stored method", name, measured))
    twins = [measured[name]["same_as"] for name in names if "same_as" in measured[name]]
    return {name: measured[name] for name in dict.fromkeys([*names, *twins])}


def _orderings(
    names: list[str] | None, out: Path | None, minutes: float | None, stored: bool, as_json: bool
) -> None:
    """Measure orderings, or take the shipped result, and print the table."""
    from ..lab.orderings.results import KIND, LEGEND, chosen, lines, measure
    from ..lab.results import load
    from ..lab.results import stored as shipped

    if stored:
        chosen(names)
        result = load(shipped("orderings"), KIND)
    else:
        count = len({piece for one in chosen(names) for piece in one.pieces()})
        with progress("measuring", count, "pieces") as bar:
            result = measure(names, out, minutes=minutes, progress=lambda piece: bar(1))
    if as_json:
        print_json(result)
        return
    print_table("Published orderings, tested here", lines(result, names))
    say(LEGEND)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym lab",
            "searchgym lab grpo rloo gigpo --figure build/lab",
            "searchgym lab --all --out runs/lab/gradients.json",
            "searchgym lab --learn grpo broken",
            "searchgym lab --stored --learn",
            "searchgym lab --orderings slate-variance",
            "searchgym lab --stored --orderings",
        )
    )(lab)
