"""``searchgym law``: what simulation foretells of real scores, and whether it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from searchgym.cli.output import JsonFlag, examples, print_json, print_results, say
from searchgym.errors import EvaluationError

app = typer.Typer()


@app.command(
    epilog=examples(
        "searchgym transfer random rules candidate --rungs wording,schema,real --out runs/law",
        "searchgym law runs/law --fix law.json",
        "searchgym law runs/law runs/new --by law.json --figure build/law",
    )
)
def law(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders that 'searchgym transfer --out' wrote; none: the stored law."),
    ] = None,
    fix: Annotated[
        Path | None, typer.Option("--fix", help="Fit a law to these agents and write it here.")
    ] = None,
    by: Annotated[
        Path | None,
        typer.Option("--by", help="Predict by this law; agents it was fitted to are marked."),
    ] = None,
    rungs: Annotated[
        str | None, typer.Option(help="Generated rungs that predict, by comma.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the rows as JSON.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Folder for the figure: PNG, SVG, CSV and JSON.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict agents' scores on real questions from generated worlds alone.

    Without --by, every agent is predicted from all the others. With --fix, the law is written
    before new agents play real sets; --by then tells how well it foretold them.
    """
    from searchgym.storage.files import write_whole

    from . import law as laws

    if by is not None and (fix is not None or rungs is not None):
        raise EvaluationError("--by takes a law as it was fixed: leave out --fix and --rungs")
    if folders:
        agents = laws.measured(folders)
        if by is not None:
            fitted = laws.Law.load(by)
        else:
            names = tuple(rungs.split(",")) if rungs else laws.RUNGS
            fitted = laws.fit(agents, names)
        if fix is not None:
            fitted.save(fix)
        result = laws.scores(fitted, agents)
    else:
        if not (by is fix is rungs is None):
            raise EvaluationError("give the folders whose agents are to be predicted")
        stored = laws.stored_results()
        if stored is None:
            raise EvaluationError("no law is stored here: give folders of 'searchgym transfer'")
        result = stored
    if out is not None:
        write_whole(out, json.dumps(result, indent=1) + "\n")
    if as_json:
        print_json(result)
        return
    law_of = result["law"]
    print_results(
        f"F1 on {len(law_of['sets'])} real sets, predicted from {' and '.join(law_of['rungs'])}",
        result["agents"], 3,
    )  # fmt: skip
    say(result["finding"])
    if figure is not None:
        drawn = laws.figure(laws.played(result), result["finding"])
        say(str(drawn.save(figure)["png"]))
