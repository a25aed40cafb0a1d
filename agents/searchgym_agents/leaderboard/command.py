"""``searchgym leaderboard`` and ``searchgym verify``: stored scores, and whether they are true."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchgym.cards import cards
from searchgym.cli.options import Trust
from searchgym.cli.output import JsonFlag, console, examples, print_json, print_results, working
from searchgym.errors import EvaluationError
from searchgym.scoring.metrics import label
from searchgym.text import printable

if TYPE_CHECKING:
    from searchgym.evaluation.intervals import Interval

    from .entries import Entry

leaderboard_app = typer.Typer()
verify_app = typer.Typer()


@leaderboard_app.command(
    epilog=examples(
        "searchgym leaderboard --set hotpotqa",
        "searchgym leaderboard runs/mine/mine.json --set hotpotqa",
    )
)
def leaderboard(
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Result files to add, as 'searchgym eval --out' writes them."),
    ] = None,
    of: Annotated[
        str | None, typer.Option("--set", "-s", metavar="SET", help="Only this set: hotpotqa, …")
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Rows of fewer than 50 questions and all runs of one agent, too."
        ),
    ] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="Print the command that repeats each run.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show stored scores: the best method of each set, or all methods of one.

    Rows come from expected.json of agents and environments and from results/*.json of agents.
    Result files are checked first, as 'searchgym verify FILE' does; a lost episode counts as 0.
    The oracle, which is told what to search for, is a set's ceiling and no method. To submit a
    method, evaluate it with --out and add the file, with its trajectories, as
    agents/searchgym_agents/NAME/results/SET.json.
    """
    from .entries import FEWEST, entries, ordered

    known = {row.set for row in entries(fewest=1)} if results else set()
    for path in results or ():
        if str(path) in known and not path.exists():
            raise EvaluationError(
                f"{path} is a set, not a result file: searchgym leaderboard --set {path}"
            )
    with working("checking results …") if results else nullcontext():
        all_rows = entries(results or (), fewest=1 if every else FEWEST)
    rows = ordered(all_rows, of=of)
    if as_json:
        print_json([{**row._asdict(), "scores": _scores(row)} for row in rows])
    elif commands:
        for run, command in sorted({row.run: row.command for row in rows}.items()):
            console().print(printable(run), style="bold", markup=False)
            print(f"  {command or '(no command asks these questions)'}")  # one line, to be pasted
    elif of is None:
        _print_best(rows)
    else:
        _print_rows(rows)


def _scores(row: Entry) -> dict[str, Any]:
    return {metric: interval._asdict() for metric, interval in row.scores.items()}


def _score(row: Entry | None, metric: str = "") -> Interval | None:
    """A row's mean and interval in a metric, its own unless named."""
    return None if row is None else row.scores.get(metric or row.metric)


def searches(row: Entry) -> float | None:
    """A row's mean searches; None where only its scores were kept."""
    return row.scores["searches"].mean if "searches" in row.scores else None


def print_scores(name: str, kind: str) -> None:
    """The stored scores of an agent, or on an environment or a set; nothing where there are
    none."""
    from .entries import entries, ordered

    if kind == "envs":  # real sets are measured under the name of their corpus
        known = cards("envs")[name].body.get("kwargs", {}) if name in cards("envs") else {}
        names = {name, known["corpus"]} if known.get("tasks") is None and known else {name}
    else:
        names = {name}
    rows = [
        {
            ("set" if kind == "agents" else "agent"): row.set if kind == "agents" else row.method,
            "metric": label(row.metric),
            "score": _score(row),
            "searches": searches(row),
            "n": row.questions,
        }
        for row in ordered(entries())
        if (row.method in names if kind == "agents" else row.set in names)
    ]
    if rows:
        print()
        print_results("Expected scores: mean [95 % interval]", rows)
        console().print("Each can be repeated: searchgym leaderboard --commands")


def _print_best(rows: list[Entry]) -> None:
    """A line a set: the best mean, whether it is told apart from the others', and the ceiling."""
    _refuse_none(rows)
    shown = []
    for name in dict.fromkeys(row.set for row in rows):
        here = [row for row in rows if row.set == name]
        methods = [r for r in here if not r.ceiling and r.verified and r.metric in r.scores]
        best, ceiling = next(iter(methods), None), next((r for r in here if r.ceiling), None)
        others = [r.scores[r.metric].high for r in methods[1:] if r.method != methods[0].method]
        shown.append({
            "set": name,
            "method": best.method if best else "–",
            "metric": label(here[0].metric),
            "mean": _score(best),
            "clear": max(others) < best.scores[best.metric].low if best and others else None,
            "ceiling": top.mean if (top := _score(ceiling)) else None,
            "n": best.questions if best else None,
            **({"note": best.note if best else ""} if any(r.note for r in rows) else {}),
            "rows": len(here),
        })  # fmt: skip
    title = "Best mean of each set [95 % interval]; clear: the others' intervals end below it"
    print_results(title, shown)
    console().print(
        "ceiling: the oracle, which is told what to search for. All methods of a set: searchgym "
        "leaderboard --set hotpotqa"
    )


def _print_rows(rows: list[Entry]) -> None:
    _refuse_none(rows)
    shown = []
    for row in rows:
        line: dict[str, Any] = {"method": row.method + (" (ceiling)" if row.ceiling else "")}
        if any(r.metric == "reward" for r in rows):
            line["reward"] = _score(row, "reward")
        line |= {"F1": _score(row, "f1"), "EM": _score(row, "em")}
        line |= {"searches": searches(row), "n": row.questions}
        if any(r.note for r in rows):
            line["note"] = row.note
        shown.append(line | {"run": row.run})
    print_results(f"{rows[0].set}: mean [95 % interval]", shown)
    console().print(
        "Rows of one run were measured alike; others may differ in k, turns or questions. "
        "--commands repeats them; --json has seeds, dates and versions."
    )


def _refuse_none(rows: list[Entry]) -> None:
    if not rows:
        raise EvaluationError("no stored score has so many questions; --all shows the others")


@verify_app.command(
    epilog=examples(
        "searchgym eval HotpotQA-v0 -a mine=runs/x/model --out runs/mine",
        "searchgym verify runs/mine/mine.json",
    )
)
def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE …", help="Result files.")],
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild/--no-rebuild", help="Play a file's actions again in its environment."
        ),
    ] = True,
    trust: Trust = False,
) -> None:
    """Check result files.

    A file is checked against its own episodes, against the questions and accepted answers of its
    environment, and by playing its actions again there. It is ok (exit code 0) if all of that was
    done and right; WRONG (1) if anything differs; NOT VERIFIED (3) if something was not tried: an
    environment that cannot be built here, lost episodes, questions chosen from a set. Who wrote the
    actions no check can tell.
    """
    from .submission import check_result

    verdicts = set()
    for path in files:
        with working(f"checking {path} …"):
            checked = check_result(path, rebuild=rebuild, trust=trust)
        verdicts.add(checked.verdict)
        print(f"{path}: {checked.verdict}")
        shown = [("ok", line) for line in checked.right]
        shown += [("not tried", line) for line in checked.untried]
        shown += [("wrong", line) for line in checked.wrong[:_SHOWN]]
        for mark, line in shown:
            print(f"  {mark}: {printable(line)}")
        if len(checked.wrong) > _SHOWN:
            print(f"  and {len(checked.wrong) - _SHOWN} more")
    if code := next((code for verdict, code in _CODES.items() if verdict in verdicts), 0):
        raise typer.Exit(code)


_CODES = {"WRONG": 1, "NOT VERIFIED": 3}
_SHOWN = 10
