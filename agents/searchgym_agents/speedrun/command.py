"""``searchgym speedrun``: time to a bar on held-out two-hop questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from searchgym.cli.options import Settings, set_option
from searchgym.cli.output import JsonFlag, examples, print_json, print_table, say
from searchgym.errors import EvaluationError

app = typer.Typer()


@app.command(
    epilog=examples(
        "searchgym speedrun",
        "searchgym speedrun scorer --out runs/speedrun",
        "searchgym speedrun 0.5b --model Qwen/Qwen2.5-0.5B-Instruct --out runs/half",
        "searchgym speedrun --verify runs/speedrun/record.json",
    )
)
def speedrun(
    track: Annotated[
        str | None, typer.Argument(help="scorer, 135m or 0.5b; none: show the records.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: runs/speedrun-TRACK.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes the run.")] = 0,
    model: Annotated[
        str | None, typer.Option(help="Model to begin from: a folder or a name.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Updates between two looks at the agent.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Give up after so many seconds of the clock.")
    ] = None,
    settings: Annotated[
        Settings, set_option("Change of the card's train table, as of 'searchgym train'.")
    ] = None,
    verify: Annotated[
        Path | None, typer.Option("--verify", help="Check this record instead.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train until held-out two-hop questions are answered with an exact match of .65.

    The clock runs while worlds are made and networks are trained, and stands still while the
    held-out questions are played. A run that is interrupted begins anew. --verify plays the actions
    of a record again (exit code 1 if something is wrong).
    """
    from . import check_record, records, run
    from .tracks import Plan

    if verify is not None:
        if track is not None or settings or model or out:
            raise EvaluationError("--verify FILE stands alone")
        record, wrong = check_record(verify)
        print(f"{verify}: {'WRONG' if wrong else 'ok'}")
        for line in wrong:
            print(f"  wrong: {line}")
        if wrong:
            raise typer.Exit(1)
        print(f"  ok: {len(record['actions'])} episodes, played again, have the stated scores")
    elif track is None:
        _show(records(), as_json)
    else:
        folder = out or Path(f"runs/speedrun-{track}")
        record = run(
            track, Plan(seed, folder, settings or (), model), every=every, seconds=seconds,
            report=lambda point: say(
                f"{point['updates']:,} updates, {point['wall_s']:.0f} s, "
                f"{point['processor_s']:.0f} s of processors: EM {point['em']:.3f} of "
                f"{point['questions']} questions"
            ),
        )  # fmt: skip
        _show([record], as_json)
        say(f"check it: searchgym speedrun --verify {folder / 'record.json'}")


def _show(kept: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json([{k: v for k, v in record.items() if k != "actions"} for record in kept])
        return
    rows = [
        {
            "track": r["track"], "bar": "reached" if r["reached"] else "not reached",
            "EM": f"{r['em']:.3f}", "minutes": f"{r['wall_s'] / 60:.1f}",
            "processor": f"{r['processor_s'] / 60:.1f}",
            "parameters": f"{r['parameters']:,}", "seed": r["seed"], "date": r["date"],
        }
        for r in kept
    ]  # fmt: skip
    print_table("Held-out two-hop questions: minutes to an exact match of .65", rows)
