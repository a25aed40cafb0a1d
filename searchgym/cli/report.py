"""``searchgym report``: runs as one HTML page that needs no other file; ``doctor``: why a training
collapsed, from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from ..plugins import register
from .output import JsonFlag, print_facts, print_json, say, with_examples, working

if TYPE_CHECKING:
    from ..reports.report import ShownEpisodes


@register("report")
@with_examples(
    "searchgym report runs/quickstart --open",
    "searchgym report runs/a runs/b --out comparison.html",
    "searchgym report runs/eval --figures figures",
)
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN [RUN …]",
            help="Folders that train, warmstart, eval --out, transfer or quickstart have written; "
            "several of a kind are compared.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page. Default: report.html in the first folder.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="A folder for every figure as PNG, SVG, CSV and JSON, and every table as CSV."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a report: summary, tables, curves, comparisons, settings, versions.

    One HTML file that opens offline, prints, light and dark. The episodes behind its numbers lie
    beside it, in report.episodes.html. Runs that differ in their seed only become one curve with
    an interval.
    """
    from ..charts.figure import altair_module
    from ..reports.page import save_report

    altair_module()  # of two missing extras, the one that brings both is named
    page = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    opener = _Opener(page)
    with working("drawing …"):
        written = save_report(runs, page, figures, opener)
    if as_json:
        print_json({**written, **{path.name: path for path in opener.written}})
    else:
        for path in (page, *opener.written):
            say(f"wrote {path}")
        if figures is not None:
            say(
                f"wrote {len(written) - 1} files into {figures}; {figures / 'index.html'} shows all"
            )
    if show:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            say(f"no browser was found: open {page.resolve()} in one")


class _Opener:
    """Writes the episodes behind a page's numbers into pages beside it, one for each run."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.written: list[Path] = []

    def __call__(
        self, run: Path, wheres: Sequence[Mapping[str, str]]
    ) -> list[ShownEpisodes | None]:  # fmt: skip
        from ..reports.report import ShownEpisodes
        from ..viewer.export import export_examples
        from ..viewer.index import Index
        from ..viewer.query import Filter

        number = f"-{len(self.written) + 1}" if self.written else ""
        path = self.page.with_name(f"{self.page.stem}.episodes{number}.html")
        examples = export_examples(Index(run), path, [Filter.of(where) for where in wheres])
        if any(examples):
            self.written.append(path)
        return [
            one and ShownEpisodes(one.episodes, *(f"{quote(path.name)}#e-{key}" for key in one[1:]))
            for one in examples
        ]


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
