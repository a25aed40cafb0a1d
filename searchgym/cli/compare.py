"""``searchgym compare``: compares results, with intervals and tests."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError, unknown
from ..plugins import register
from ..scoring.metrics import label
from .output import JsonFlag, console, print_json, print_results, say, with_examples

if TYPE_CHECKING:
    from ..evaluation.result import EvalResult

AGAINST = "against"


@register("compare")
@with_examples(
    "searchgym eval MultiHopQA-v0 -a rules -a random --out runs",
    "searchgym compare runs/rules.json runs/random.json",
    "searchgym compare runs/k3.json runs/k5.json --despite rules.k --despite environment.k",
)
def compare(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE FILE …", help="Two or more files that 'searchgym eval --out' wrote."
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "-m",
            help="em, f1, searches, …; default: f1, or the reward where no answer is given.",
        ),
    ] = None,
    despite: Annotated[
        list[str] | None,
        typer.Option(
            "--despite", help="A setting that may differ: rules.k, versions, … Repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Compare every result with the first, question by question.

    Refuses results whose settings differ in anything but the agent.
    """
    from ..evaluation.comparison import NotComparable, asked_differently, told
    from ..evaluation.comparison import compare as paired
    from ..evaluation.differences import holm, power_note
    from ..evaluation.result import EvalResult, caveats
    from ..evaluation.summaries import frontier, point

    if len(results) < 2:
        raise EvaluationError(f"got {len(results)} result; name two or more files")
    first, *others = loaded = [EvalResult.load(path) for path in results]
    meant = despite or ()
    metric = metric or first.metric
    _require_settings(meant, loaded)
    try:
        compared = [paired(other, first, metric, despite=meant, seed=seed) for other in others]
    except NotComparable as error:
        options = " ".join(f"--despite {shlex.quote(name)}" for name in error.names)
        raise EvaluationError(f"{error.advice}: {options}") from None
    adjusted = holm([c.p for c in compared])
    worth = frontier([point(str(i), r.rows, metric) for i, r in enumerate(loaded)])
    best = {p.name for p in worth}
    rows: list[dict[str, Any]] = [
        {
            "agent": c.a, metric: c.mean_a, AGAINST: c.mean_b, "difference": c.difference,
            "p (Holm)": p,
        }
        for c, p in zip(compared, adjusted, strict=True)
    ]  # fmt: skip
    note = power_note(min(c.difference.n for c in compared))
    unlike = {f"{other.agent} and {first.agent}": differs for other in others
              if (differs := asked_differently(other, first))}  # fmt: skip
    if as_json:
        comparisons = [
            {**c._asdict(), "difference": c.difference._asdict(), "p_holm": p}
            for c, p in zip(compared, adjusted, strict=True)
        ]
        print_json(
            {
                "metric": metric, "comparisons": comparisons, "note": note,
                "asked_differently": unlike,
                "frontier": [loaded[int(p.name)].agent for p in worth],
            }
        )  # fmt: skip
        return
    name = label(metric)
    print_results(
        f"{name} of {first.set}, paired on the same questions [95 % interval]",
        [
            {
                "agent": row["agent"], name: row[metric],
                f"{name} of {first.agent}": row[AGAINST],
                "difference": row["difference"],
                "p (Holm)": f"{row['p (Holm)']:.4f}",
                "questions": c.difference.n,
                **({"lost": c.lost} if any(c.lost for c in compared) else {}),
            }
            for row, c in zip(rows, compared, strict=True)
        ],
        3, signed=["difference"],
    )  # fmt: skip
    print_results(
        f"{name} against searches, mean [95 % interval]",
        [
            {
                "agent": r.agent, name: r.means[metric], "searches": r.means["searches"],
                "Pareto front": str(i) in best,
            }
            for i, r in enumerate(loaded)
        ],
    )  # fmt: skip
    if notes := caveats(loaded):
        say(notes.strip())
    if note:
        say(textwrap.fill(note, console().width))
    for pair, differs in unlike.items():
        say(f"{pair} were asked differently: {told(differs)}; '-s KEY=VALUE' sets it in an eval")


def _require_settings(names: Sequence[str], results: Sequence[EvalResult]) -> None:
    """Refuse a name that is no setting, or part of one, that results may have.

    Raises:
        EvaluationError: naming the nearest settings.
    """
    if not names:
        return
    from dataclasses import fields

    from ..envs.options import Options
    from ..evaluation.comparison import BEYOND, IGNORED

    known = {*IGNORED, "seed", "scoring.version", *BEYOND}
    known |= {f"environment.{field.name}" for field in fields(Options)}
    for result in results:
        known |= {*_dotted(result.settings)}
    for name in names:
        if name not in known:
            raise EvaluationError(f"--despite: {unknown('setting', name, known)}")


def _dotted(settings: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The dotted names of settings, and of the tables that they stand in."""
    for key, value in settings.items():
        yield (name := f"{before}{key}")
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{name}.")
