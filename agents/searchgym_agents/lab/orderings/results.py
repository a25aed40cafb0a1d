"""Results of orderings: measured piece by piece into a file, printed as a table."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from searchgym.errors import check_known

from ..learning_results import NOTHING
from ..results import resumed
from .measurements import evidence, gradient, misled, step_variance
from .searches import boundary, turns
from .training import Variant, learn
from .verdicts import ORDERINGS, Arm, Judgement, Ordering, verdict_of

KIND = "pieces"
"""Key under which a result holds its measurements: piece → figures."""
LEGEND = (
    "Mean and 95 % interval over n seeds (differences; ratios: geometric means). agree: the "
    "interval lies inside the published range; disagree: outside; undecided: it holds both; not "
    "measurable: no training of either side learnt anything. An ordering agrees if all of its rows "
    f"do. at 0: seeds of the first and second side that ended at an exact match of {NOTHING:g} or "
    "less"
)


MEASURES: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "step_variance": step_variance, "gradient": gradient, "evidence": evidence, "misled": misled,
    "learn": learn, "boundary": boundary, "turns": turns,
}  # fmt: skip
"""Name → function of a seed and an arm's options, which returns figures."""


def measure_arm(arm: Arm, seed: int) -> dict[str, Any]:
    """Measure one seed of an arm.

    Raises:
        CardError: an unknown measure.
    """
    check_known("measure", MEASURES, arm.measure)
    return dict(MEASURES[arm.measure](seed, **arm.options))


def chosen(names: Sequence[str] | None) -> list[Ordering]:
    """The orderings of these names, by default all.

    Raises:
        CardError: an unknown name.
    """
    check_known("ordering", ORDERINGS, *(names or ()))
    return [ORDERINGS[name] for name in names or ORDERINGS]


def measure(
    names: Sequence[str] | None = None, path: Path | None = None, *,
    minutes: float | None = None, progress: Callable[[str], object] = str,
) -> dict[str, Any]:  # fmt: skip
    """Measure orderings, piece by piece; resumes from ``path``. A piece is one seed of one arm.

    Args:
        minutes: No piece is begun after so many.
        progress: Called with each piece's name before it is measured.
    """
    pieces = {piece: arm for ordering in chosen(names) for piece, arm in ordering.pieces().items()}
    ends = math.inf if minutes is None else time.monotonic() + 60 * minutes

    def one(piece: str, _: dict[str, Any]) -> Any:
        progress(piece)
        return measure_arm(*pieces[piece])

    within = (piece for piece in pieces if time.monotonic() < ends)
    return resumed(path, {"course": asdict(Variant())}, within, one, KIND)


def verdicts(result: Mapping[str, Any]) -> dict[str, tuple[str, tuple[Judgement, ...]]]:
    """Verdict and comparisons of every ordering, by name."""
    return {name: verdict_of(one, result[KIND]) for name, one in ORDERINGS.items()}


def lines(result: Mapping[str, Any], names: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Rows of the table, one for each comparison; an ordering agrees if all of its rows do."""
    rows = []
    for ordering in chosen(names):
        for one in verdict_of(ordering, result[KIND])[1]:
            rows.append({
                "ordering": ordering.name, "compared": one.what, "claim": one.range,
                "measured": shown(one), "n": str(one.seeds), "at 0": at_0(one),
                "verdict": one.verdict,
            })  # fmt: skip
    return rows


def shown(one: Judgement) -> str:
    """A comparison's mean and interval; a dash where nothing was measured."""
    if one.verdict == "not measured":
        return "-"
    mean, low, high = map(_number, (one.mean, one.low, one.high))
    return f"{mean} [{low}, {high}]"


def at_0(one: Judgement) -> str:
    """Seeds of either side that ended with nothing learnt; "" where none did."""
    return "/".join(map(str, one.collapsed)) if any(one.collapsed) else ""


def _number(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "-∞"}.get(value, "?")
    text = f"{value:z.2f}" if abs(value) < 100 else f"{value:.0f}"
    return re.sub(r"^(-?)0\.", r"\1.", text)


def sentences(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every ordering for a page: its declaration, verdict, and each comparison as a row."""
    entries = []
    for name, (verdict, compared) in verdicts(result).items():
        one = ORDERINGS[name]
        rows = [{"what": c.what, "published": c.range, "measured": shown(c), "seeds": c.seeds,
                 "at_0": at_0(c), "verdict": c.verdict} for c in compared]  # fmt: skip
        entries.append({"name": name, "source": one.source, "claim": one.claim, "how": one.how,
                        "verdict": verdict, "rows": rows})  # fmt: skip
    return entries
