"""``searchgym doctor``: why a training collapsed, from its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..plugins import register
from .output import JsonFlag, print_facts, print_json, say, with_examples


@register("doctor")
@with_examples(
    "searchgym doctor runs/grpo",
    "searchgym doctor outputs/checkpoint-200/trainer_state.json",
    "searchgym doctor verl.log --json",
)
def doctor(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A training's folder, ours or TRL's, or its log: trainer_state.json, or lines of "
            "verl and Search-R1, from the console or as JSON.",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Name what made a training collapse, by the metrics it logged: cause, evidence, remedy.

    The page "My training collapsed" of the documentation explains each cause. The exit code is 0
    where nothing was found, and 1 where something was.
    """
    from ..reports.diagnosis import diagnosis

    found = diagnosis(run)
    if as_json:
        print_json(found)
    else:
        for row in found["findings"]:
            told = {name: row[name] for name in ("meaning", "evidence", "remedy", "page")}
            print_facts(f"{row['cause']} (update {row['update']})", told)
        if not found["findings"]:
            say(f"nothing was found in {found['updates']} updates")
        if found["not_judged"]:
            say(f"not judged, for lack of metrics: {', '.join(found['not_judged'])}")
    if found["findings"]:
        raise typer.Exit(1)
