"""``searchgym law``: what simulation foretells of real scores, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError
from .output import JsonFlag, examples, print_json, print_table, say

if TYPE_CHECKING:
    from ..benchmark.law import AgentScores, Law

FITTED, FORETOLD = "fitted", "foretold"


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
    ridge: Annotated[float | None, typer.Option(help="Ridge penalty λ.")] = None,
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
    from ..benchmark import law as laws
    from ..utils.files import write_whole

    if by is not None and (fix is not None or rungs is not None or ridge is not None):
        raise EvaluationError("--by takes a law as it was fixed: leave out --fix, --rungs, --ridge")
    if folders:
        agents = laws.measured(folders)
        if by is not None:
            found = laws.Law.load(by)
        else:
            names = tuple(rungs.split(",")) if rungs else laws.RUNGS
            found = laws.fit(agents, names, ridge=laws.RIDGE if ridge is None else ridge)
        if fix is not None:
            found.save(fix)
        result = scores(found, agents)
    else:
        if not (by is fix is rungs is ridge is None):
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
    print_table(
        f"F1 on {len(law_of['sets'])} real sets, predicted from {' and '.join(law_of['rungs'])}",
        [{k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()}
         for row in result["agents"]],
    )  # fmt: skip
    say(result["finding"])
    if figure is not None:
        drawn = laws.figure(laws.played(result), result["finding"])
        say(str(drawn.save(figure)["png"]))


def scores(found: Law, agents: Sequence[AgentScores]) -> dict[str, Any]:
    """Return predictions and their quality: ``agents`` (rows), ``r2`` by kind, ``finding``.

    An agent that the law was fitted to is predicted by a law of the same form fitted to the others.
    """
    from ..benchmark import law as laws

    played = [a for a in agents if all(name in a.real for name in found.sets)]
    rows: list[dict[str, Any]] = []
    left = dict(zip([a.agent for a in played], laws.left_out(played, found), strict=True))
    for agent in agents:
        unseen = agent.agent not in found.agents
        real = agent.target(found.sets) if agent in played else None
        rows.append({
            "agent": agent.agent, **{rung: agent.simulated.get(rung) for rung in found.rungs},
            "predicted": found.predict(agent) if unseen else left[agent.agent], "real": real,
            "law": FORETOLD if unseen else FITTED,
        })  # fmt: skip
    r2: dict[str, Any] = {}
    both = [a.target(found.sets) for a in played]
    r2["leave one out"] = laws.r_squared(both, [left[a.agent] for a in played])._asdict()
    new = [row for row in rows if row["law"] == FORETOLD and row["real"] is not None]
    if len(new) >= 3:
        scores_of = {key: [row[key] for row in new] for key in ("real", "predicted")}
        r2["foretold"] = laws.r_squared(scores_of["real"], scores_of["predicted"])._asdict()
    return {"agents": rows, "r2": r2, "finding": finding(r2), "law": found.__dict__}


def finding(r2: Mapping[str, Mapping[str, Any]]) -> str:
    """Say in a sentence how well generated worlds predict real scores."""
    said = {name: f"{v['mean']:.2f} [{v['low']:.2f}, {v['high']:.2f}]" for name, v in r2.items()}
    out = r2["leave one out"]
    does = "foretell" if out["low"] > 0 else "do not foretell"
    text = f"Generated worlds {does} real F1: R² {said['leave one out']} over {out['n']} agents"
    if "foretold" in r2:
        text += f"; {said['foretold']} for {r2['foretold']['n']} unseen ones"
    return text


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym transfer random rules candidate --rungs wording,schema,real --out runs/law",
            "searchgym law runs/law --fix law.json",
            "searchgym law runs/law runs/new --by law.json --figure build/law",
        )
    )(law)
