"""``searchgym lab``: what training methods' gradients are worth, how fast each one learns, which
published orderings hold, and collapses made on purpose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from searchgym.cli.output import (
    JsonFlag,
    console,
    examples,
    print_json,
    print_table,
    progress,
    say,
)
from searchgym.errors import CardError, check_known

_NOISE = re.compile(r" ±\S*\d|\s\(own [^()]*\)")
_WIDE = 110
"""Columns of a terminal from which on the table holds every ± without folding."""
LEGEND = (
    "expected, one step: cosine with the true gradient of the expected gradient, and of one step's "
    "on average; bias, variance: relative to the useful length; own: bias to the gradient of what "
    "the recipe pays, where that is not the return; then signal-to-noise per cost"
)
app = typer.Typer()


@app.command(
    epilog=examples(
        "searchgym lab",
        "searchgym lab grpo rloo gigpo",
        "searchgym lab --all --out runs/lab/gradients.json",
        "searchgym lab --learn grpo broken",
        "searchgym lab --stored --learn",
        "searchgym lab --orderings slate-variance",
        "searchgym lab --stored --orderings",
        "searchgym lab --collapse no_search",
        "searchgym lab --collapse ttrl rent intuitor",
        "searchgym lab --stored --collapse",
    )
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
    collapse: Annotated[
        bool, typer.Option("--collapse", help="Make trainings collapse, and mend them, instead.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="With --orderings: begin no piece after so many.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Group size of the rows shown: 4, 8 or 16. Default: 8.")
    ] = None,
    success: Annotated[
        float | None, typer.Option(help="Success rate shown: .1, .4 or .8. Default: .4.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps drawn where many are computed at once.")
    ] = None,
    few: Annotated[
        int | None, typer.Option(help="Steps drawn where each is a batch of its own.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Trainings of each method with --learn (default: 5) or cause with --collapse (1).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Result file; the same command resumes from it."),
    ] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Show the shipped result.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare methods' gradients with the true one, in a task whose every trajectory is known.

    Takes minutes: rows are kept in --out as they are made. With --learn, a language model of a
    hundred thousand parameters is trained by each method instead. With --orderings, what papers
    found of two methods is measured again, and the table says whether it holds here. With
    --collapse, small trainings collapse for the causes that are named, and again with the remedy;
    the recipes ttrl, rent and intuitor, whose rewards read no label, train beside GRPO.
    """
    from . import learning_bench
    from . import learning_results as learnt
    from .gradient_results import SIZE, SUCCESS, lines, measure
    from .methods import DEFAULT, MOST_USED, learners
    from .methods import methods as measurable
    from .results import chosen, load
    from .results import stored as shipped

    if every and methods:
        raise CardError("name methods or give --all, not both")
    if collapse:
        if learn or every or orderings:
            raise CardError("--collapse goes with names, --seeds, --out, --stored and --json")
        _collapses(methods, out, seeds, stored, as_json)
        return
    if orderings:
        if learn or every:
            raise CardError("--orderings goes with names, --minutes, --out, --stored and --json")
        _orderings(methods, out, minutes, stored, as_json)
        return
    if minutes is not None:
        raise CardError("--minutes goes with --orderings")
    known, usual = (learners, MOST_USED) if learn else (measurable, DEFAULT)
    names = list(methods or (known() if every else usual))
    if seeds is not None and not learn:
        raise CardError("--seeds goes with --learn")
    if learn and any(option is not None for option in (size, success, steps, few)):
        raise CardError("--size, --success, --steps and --few are of gradients: not with --learn")
    size, success = SIZE if size is None else size, SUCCESS if success is None else success
    if stored and any(option is not None for option in (steps, few, out, seeds)):
        raise CardError("--stored measures nothing: leave --steps, --few, --seeds, --out away")
    if stored:
        result = load(shipped("learning" if learn else "gradients"))
        if methods:
            result = chosen(result, methods)
    else:
        with progress("measuring", len(names), "methods") as bar:
            if learn:
                result = learning_bench.bench(
                    names, out, seeds=seeds or 5, progress=lambda name: bar(1)
                )
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
    narrow = console().width < _WIDE
    if narrow:
        rows = [{key: _NOISE.sub("", cell) if isinstance(cell, str) else cell
                 for key, cell in row.items()} for row in rows]  # fmt: skip
    if learn:
        say(learnt.LEGEND)
        print_table("Learning: mean and 95 % interval over seeds", rows)
    else:
        say(LEGEND)
        print_table(f"Gradients of one step, groups of {size}, success {success:g}", rows)
        if narrow:
            say(f"± and own are shown from {_WIDE} columns on, and by --json")
        for name, method in result["methods"].items():
            if "same_as" in method:
                say(f"{name}: as {method['same_as']} at a step's first update")


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _orderings(
    names: list[str] | None, out: Path | None, minutes: float | None, stored: bool, as_json: bool
) -> None:
    """Measure orderings, or take the shipped result, and print the table."""
    from .orderings.results import KIND, LEGEND, chosen, lines, measure
    from .results import load
    from .results import stored as shipped

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


def _collapses(
    names: list[str] | None, out: Path | None, seeds: int | None, stored: bool, as_json: bool
) -> None:
    """Reproduce collapses, or take the shipped result, and print the table."""
    from .collapse_results import KIND, LEGEND, figures, known, lines, measure, unlabelled
    from .collapses import declared
    from .results import load
    from .results import stored as shipped

    wanted = list(names or declared())
    check_known("collapse", known(), *wanted)
    if stored:
        result = load(shipped(KIND), KIND)
        if names:
            check_known("stored collapse", result[KIND], *names)
            kept = {name: entry for name, entry in result[KIND].items() if name in names}
            result = {**result, KIND: kept}
    else:
        with progress("reproducing", len(wanted), "causes") as bar:
            result = measure(wanted, out, seeds=seeds or 1, progress=lambda name: bar(1))
    if as_json:
        print_json(result)
        return
    if rows := unlabelled(result):
        print_table("Rewards without labels: first → last five updates", rows)
    if not (made := lines(result)):
        return
    print_table("Collapses made on purpose, and mended", made)
    say(LEGEND)
    for kind, fresh in (("seen", False), ("fresh", True)):
        told = figures(result, fresh=fresh).items()
        each = (
            f"{name.replace('_', ' ')} {value:.3g}" for name, value in told if value is not None
        )
        say(f"{kind}: {'; '.join(each)}")
