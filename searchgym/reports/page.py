"""A report as one HTML file that needs no other, and its figures and tables as files."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..charts.figure import Figure, renderer
from ..charts.palette import css
from ..errors import DataError
from ..evaluation.intervals import Interval
from ..evaluation.table import ANCHOR, LINKS, Command, Link, ResultTable, Seeds
from ..storage.files import replacing
from ..web.pages import Templates
from .evaluations import evaluation_report
from .ladders import ladder_report
from .report import Opener, Report
from .sources import EVALUATION, LADDER, Run, read_runs
from .training import training_report


def report_of(paths: Sequence[Path | str], opener: Opener | None = None) -> Report:
    """The report of one run or of several of a kind, read from their folders.

    ``opener`` writes the episodes that numbers lead to; without it there are none.

    Raises:
        DataError: no run, a broken file, or runs of different kinds.
        EvaluationError: a result that cannot be read.
    """
    return report_on(read_runs([Path(p) for p in paths]), opener)


def report_on(runs: Sequence[Run], opener: Opener | None = None) -> Report:
    """The report of what was read already."""
    if runs[0].kind == LADDER:  # a table of means: its episodes are not kept
        return ladder_report(runs)
    make = evaluation_report if runs[0].kind == EVALUATION else training_report
    return make(runs, opener)


def save_report(
    paths: Sequence[Path | str],
    out: Path,
    figures: Path | None = None,
    opener: Opener | None = None,
) -> dict[str, Path]:
    """Write the report of runs as one HTML file and, into folder ``figures``, every figure as PNG,
    SVG, CSV and JSON and every table as CSV, with an index; what was written, by name.

    Raises:
        DataError, EvaluationError: see :func:`report_of`; also where ``out`` is a folder.
        MissingExtraError: the extra ``report`` is missing.
    """
    if out.is_dir():
        raise DataError(f"{out} is a folder: name the HTML file, --out {out / 'report.html'}")
    report = report_of(paths, opener)
    written = save_figures(report, figures) if figures is not None else {}
    return {"report.html": write(out, render(report)), **written}


def write(path: Path, content: str | bytes) -> Path:
    """The whole file or, if interrupted, none of it; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def save_figures(report: Report, folder: Path) -> dict[str, Path]:
    """Every figure as PNG, SVG and its data, every table as CSV, and ``index.html``, which shows
    the figures and lists all files."""
    written: dict[str, Path] = {}
    for figure in report.figures:
        for path in figure.save(folder).values():
            written[path.name] = path
    folder.mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        path = folder / f"table_{table.name}.csv"
        path.write_bytes(table.csv().encode())
        written[path.name] = path
    pages = Templates(styles=("report.css",))
    text = pages.standalone("figures.html", report=report, policy={"img-src": "'self' data:"})
    written["index.html"] = write(folder / "index.html", text)
    return written


def save_curve(run: Path) -> Path:
    """The learning curves of a training run as ``curve.png`` in its folder.

    Raises:
        DataError: the folder holds no training run.
        MissingExtraError: the extra ``report`` is missing.
    """
    figure = next((f for f in report_of([run]).figures if f.name == "learning"), None)
    if figure is None:
        raise DataError(f"{run} holds no learning curve")
    return write(run / "curve.png", figure.png())


def render(report: Report) -> str:
    """The page: pictures drawn already, so that it shows without scripts; with them charts answer
    to the pointer, tables sort, and pictures can be saved in the colours shown."""
    pages = Templates(styles=("report.css",), scripts=("report.js",))
    return pages.standalone(
        "report.html", scripts=(library(),),
        styles=(css(),),
        report=report, picture=_picture, spec=_spec, link=_link, LINKS=LINKS, ANCHOR=ANCHOR,
        is_figure=lambda b: isinstance(b, Figure), is_table=lambda b: isinstance(b, ResultTable),
        is_link=lambda v: isinstance(v, Link), is_command=lambda v: isinstance(v, Command),
        is_quantity=lambda v: isinstance(v, (Interval, Seeds)),
    )  # fmt: skip


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed with its interpreter (no eval), as one script."""
    code: str = renderer().javascript_bundle()
    return code.replace("</script", r"<\/script")


def _picture(figure: Figure, narrow: bool) -> str:
    """The SVG, for use within a page: unseen by screen readers, who are told its description."""
    return figure.svg(None, narrow).replace(
        "<svg ", '<svg aria-hidden="true" focusable="false" ', 1
    )


def _spec(figure: Figure, narrow: bool) -> str:
    text = json.dumps(figure.spec(narrow), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")


def _link(text: str, kind: str) -> str:
    encoded = base64.b64encode(text.encode()).decode()
    return f"data:{kind};charset=utf-8;base64,{encoded}"
