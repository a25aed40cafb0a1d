"""``searchgym leaderboard`` and ``searchgym verify``: stored scores, and whether they are true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError
from .output import JsonFlag, console, examples, plus_minus, print_json, print_table, say, working
from .targets import Trust

if TYPE_CHECKING:
    from ..benchmark.leaderboard import Entry


def leaderboard(
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Result files to add, as 'searchgym eval --out' writes them."),
    ] = None,
    of: Annotated[
        str | None, typer.Option("--set", "-s", metavar="SET", help="Only this set: hotpotqa, …")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="Print all rows, by set, method, f1, em, evidence_recall, searches, questions or "
            "date."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Rows of fewer than 50 questions, too.")
    ] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="Print the command that repeats each run.")
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, with versions and commands.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show stored scores: the best method of each set, or all methods of one.

    Rows come from agents/*/expected.json, envs/*/expected.json and agents/*/results/*.json. To
    submit a method, evaluate it with --out, check the file with 'searchgym verify FILE', and add it
    with its trajectories as agents/NAME/results/SET.json.
    """
    from ..benchmark.leaderboard import FEWEST, entries, markdown, ordered

    all_rows = entries(results or (), fewest=1 if every else FEWEST)
    rows = ordered(all_rows, sort or "set", of=of)
    if as_json:
        print_json([{**row._asdict(), "scores": _scores(row)} for row in rows])
    elif as_markdown:
        print(markdown(rows))
    elif commands:
        out = console()
        for run, command in sorted({row.run: row.command for row in rows}.items()):
            out.print(f"[bold]{run}[/bold]")
            print(f"  {command}")  # one line each, to be pasted
    else:
        _print_rows(rows, best=of is None and sort is None)


def _scores(row: Entry) -> dict[str, Any]:
    return {metric: interval._asdict() for metric, interval in row.scores.items()}


def _print_rows(rows: list[Entry], best: bool) -> None:
    if not rows:
        raise EvaluationError("no stored score has so many questions; --all shows the others")
    sets = [row.set for row in rows]
    one = len(set(sets)) == 1
    shown = []
    for place, row in enumerate(rows):
        if best and sets.index(row.set) != place:
            continue
        line: dict[str, Any] = {} if one else {"set": row.set}
        line |= {"method": row.method, "F1": plus_minus(row.scores["f1"])}
        if one:
            line["EM"] = plus_minus(row.scores["em"])
        line["searches"] = format(row.scores["searches"].mean, ".1f")
        line["n"] = row.questions
        if best:
            line["rows"] = sets.count(row.set)
        elif one:
            line["run"] = row.run
        shown.append(line)
    about = f"{sets[0]}: " if one else "Best method of each set: " if best else "All rows: "
    print_table(f"{about}mean ± half of the 95 % interval", shown)
    console().print(
        "All methods of a set: searchgym leaderboard --set hotpotqa"
        if best
        else "Rows of one run were measured alike; others may differ in k, turns or questions. "
        "--commands repeats them; --markdown shows seeds, dates and versions."
    )


def verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Result files; without any, the figures of README and the pages."),
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild/--no-rebuild", help="Play a file's actions again in its environment."
        ),
    ] = True,
    write: Annotated[
        bool, typer.Option("--write", help="Put the stored values into the pages.")
    ] = False,
    unmarked: Annotated[
        bool, typer.Option("--unmarked", help="Print figures that no mark ties to a result.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Check result files, or every marked figure that README and the pages state.

    A file is checked against its own episodes, and by playing their actions again. A page marks its
    figures by comments (see searchgym/benchmark/figures.py). Exit code 1 if anything differs.
    """
    if files and (write or unmarked):
        raise EvaluationError("--write and --unmarked are for pages: leave out the files")
    if trust and not files:
        raise EvaluationError("--trust is for result files: name some")
    good = _files(files, rebuild, trust) if files else _pages(write, unmarked)
    if not good:
        raise typer.Exit(1)


def _files(files: list[Path], rebuild: bool, trust: bool) -> bool:
    from ..benchmark.submitted import check_result

    good = True
    for path in files:
        with working(f"checking {path} …"):
            checked = check_result(path, rebuild=rebuild, trust=trust)
        good &= not checked.wrong
        print(f"{path}: {'WRONG' if checked.wrong else 'ok'}")
        for mark, lines in (("ok", checked.right), ("not tried", checked.untried)):
            for line in lines:
                print(f"  {mark}: {line}")
        for line in checked.wrong[:_SHOWN]:
            print(f"  wrong: {line}")
        if len(checked.wrong) > _SHOWN:
            print(f"  and {len(checked.wrong) - _SHOWN} more")
    return good


_SHOWN = 10


def _pages(write: bool, unmarked: bool) -> bool:
    from ..benchmark import figures
    from ..benchmark.leaderboard import expected_files
    from ..cards import catalog

    top = catalog("envs").parent
    good = True
    for path in expected_files():
        lines = figures.contradictions(path)
        good &= not lines
        for line in lines:
            print(f"{path.relative_to(top)}: {line}")
    count = bare = marked = 0
    for path in figures.pages():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(top)
        try:
            if write and (new := figures.rewritten(text)) != text:
                path.write_text(new, encoding="utf-8")
                print(f"{name}: written anew")
                text = new
            checked = figures.check(text)
        except EvaluationError as error:
            raise EvaluationError(f"{name}: {error}") from error
        count, bare, marked = (
            count + checked.figures, bare + len(checked.unmarked), marked + bool(checked.figures)
        )  # fmt: skip
        good &= not checked.drifts
        for drift in checked.drifts:
            print(f"{name}:{drift.line}: states {drift.stated}, stored is {drift.stored}")
        if unmarked:
            for figure in checked.unmarked:
                print(f"{name}: {figure} is not marked")
    print(f"{count} figures on {marked} pages {'agree with' if good else 'were compared with'} "
          "the stored results")  # fmt: skip
    if bare and not unmarked:
        say(f"{bare} more have an interval but no mark; --unmarked prints them")
    return good


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        epilog=examples(
            "searchgym leaderboard --set hotpotqa",
            "searchgym leaderboard --sort f1 --markdown",
            "searchgym leaderboard runs/mine/mine.json --set hotpotqa",
        )
    )(leaderboard)
    app.command(
        epilog=examples(
            "searchgym verify",
            "searchgym eval HotpotQA-v0 -a mine=runs/x/model --out runs/mine",
            "searchgym verify runs/mine/mine.json",
        )
    )(verify)
