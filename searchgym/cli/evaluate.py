"""``searchgym eval``: how good is an agent in an environment?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError
from .output import JsonFlag, examples, print_json, print_table, progress, say, working
from .targets import EnvId, Overrides, make_search_env, overrides

if TYPE_CHECKING:
    from ..evaluation.result import EvalResult
    from ..types import Task


def evaluate(
    env: EnvId,
    agent: Annotated[
        list[str],
        typer.Option("--agent", "-a", help="A card, weights or module:Class. Repeatable."),
    ] = ["rules"],  # noqa: B006  (typer copies it)
    agent_set: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set",
            "-A",
            metavar="KEY=VALUE",
            help="An option of the agents: model=…, base_url=…, temperature=0.7. Repeatable.",
        ),
    ] = None,
    questions: Annotated[
        int | None,
        typer.Option("--questions", "-n", min=1, help="Ask only so many, of all kinds alike."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes every episode.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played at a time.")] = 256,
    closed_book: Annotated[
        bool, typer.Option("--closed-book", help="Switch all tools off.")
    ] = False,
    bars: Annotated[
        bool,
        typer.Option(
            "--baselines", help="Exact match of what costs nothing, and of the oracle, by family."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the full results as JSON.")] = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate agents on an environment: every question once, means with 95 % intervals."""
    if bars:
        _baselines(env, questions, seed, settings, as_json)
        return
    from ..evaluation.power import power_note
    from ..evaluation.run import evaluate as run
    from .contestants import contestant

    options = overrides(agent_set, "--agent-set")
    makers = {name: contestant(name, options) for name in agent}
    with working(f"building {env} …"):
        shared = make_search_env(env, settings).setting
    tasks = spread(shared.tasks, questions)
    results = []
    for name, maker in makers.items():
        player = maker(shared, tasks)
        if player is None:
            raise CardError(f"agent {name!r} needs gold queries, which {env} does not have")
        with progress(name, len(tasks)) as advance:
            result = run(
                player, shared, name=name, label=env, tasks=tasks, seed=seed, batch=batch,
                search_enabled=not closed_book, progress=advance,
            )  # fmt: skip
        results.append(result)
        if out is not None:
            path = result.save(out / f"{name.replace('/', '-').replace(':', '-')}.json")
            say(f"{name}: {path}")
        if not result.complete:
            raise KeyboardInterrupt
    if as_json:
        print_json([_record(result, env) for result in results])
        return
    title = f"{env}: {len(tasks):,} questions, mean [95 % interval]"
    print_table(title, [_row(result) for result in results])
    if note := power_note(len(tasks)):
        say(note)
    families = sorted({f for result in results for f in result.by_family()})
    if len(families) > 1:
        rows = [{"agent": r.agent, **{f: r.by_family().get(f) for f in families}} for r in results]
        print_table("Exact match by family", rows)
    if used := [{"agent": r.agent, **r.usage} for r in results if r.usage]:
        print_table("Used by the agents", used)
    if refused := [_refusals(result) for result in results if _mixed(result)]:
        print_table("Refusals, where some questions have no answer", refused)
    lost = [row for result in results for row in _lost(result)]
    if lost:
        title = "Episodes lost to the infrastructure, at their n-th search (not in the means)"
        print_table(title, lost)


def spread(tasks: Sequence[Task], number: int | None) -> list[Task]:
    """``number`` tasks at even distances: sets are sorted by family, and each has its share."""
    n = len(tasks)
    if number is None or number >= n:
        return list(tasks)
    return [tasks[i * n // number] for i in range(number)]


def _baselines(
    env: str, questions: int | None, seed: int, settings: list[str] | None, as_json: bool
) -> None:
    from ..evaluation.baselines import baselines, print_baselines

    with working(f"building {env} …"):
        shared = make_search_env(env, settings).setting
    with progress("baselines") as advance:
        table = baselines(
            shared.keywords, tasks=spread(shared.tasks, questions), seed=seed, progress=advance
        )
    if as_json:
        print_json(table)
    else:
        print_baselines(table)


def _record(result: EvalResult, env: str) -> dict[str, Any]:
    return {
        "agent": result.agent,
        "env": env,
        "questions": len(result.rows),
        "seed": result.seed,
        "means": {name: interval._asdict() for name, interval in result.means.items()},
        "em_by_family": result.by_family(),
        "infra_errors": result.infra_errors,
        "lost_by_searches": _lost(result),
        "usage": dict(result.usage),
        "seconds": result.duration_s,
    }


def _lost(result: EvalResult) -> list[dict[str, Any]]:
    """What the infrastructure cost, by number of searches; empty if it cost nothing."""
    from ..evaluation.lost import lost_by_searches

    if not result.infra_errors:
        return []
    retries = int(result.settings["rules"]["max_retries"])
    return [
        {"agent": result.agent, **line._asdict()} for line in lost_by_searches(result.rows, retries)
    ]


def _mixed(result: EvalResult) -> bool:
    return any(row.should_abstain for row in result.rows)


def _refusals(result: EvalResult) -> dict[str, Any]:
    from ..evaluation.decisions import abstention

    found = abstention(result.rows)
    shown = {
        "F1": found.refusals.f1(),
        "precision": found.refusals.precision,
        "recall": found.refusals.recall,
        "answerable refused": found.refusals.false_alarm_rate,
        "exact match where answered": found.answered,
    }
    cells = {name: str(interval) if interval.n else "–" for name, interval in shown.items()}
    return {"agent": result.agent, **cells, "invented": found.invented}


def _row(result: EvalResult) -> dict[str, Any]:
    shown: dict[str, Any] = {"agent": result.agent}
    for metric in ("em", "f1", "evidence_recall", "searches", "invalid", "truncated"):
        interval = result.means[metric]
        shown[metric.replace("_", " ")] = str(interval) if interval.n else "–"
    return shown


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "eval",
        epilog=examples(
            "searchgym eval SearchQA-v0",
            "searchgym eval MultiHopQA-v0 -a random -a rules -a oracle",
            "searchgym eval searchgym/HotpotQA-v0 -a my_package:MyAgent -n 100 --json",
            "searchgym eval SearchQA-v0 -a rules -s split=test --out runs/rules",
            "searchgym eval SearchQA-v0 -a react -a tool-calling -n 50 -A "
            "base_url=http://127.0.0.1:8000/v1 -A model=Qwen/Qwen2.5-7B-Instruct",
            "searchgym eval SearchQA-v0 --baselines",
        ),
    )(evaluate)
