"""Scores of agents on one set: overall, by family, what searches buy, how episodes ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..charts.figure import Figure
from ..charts.planes import cost_and_score, shares, steps
from ..errors import EvaluationError
from ..evaluation.comparison import compare
from ..evaluation.intervals import Interval
from ..evaluation.metrics import METRICS, limits
from ..evaluation.result import EvalResult, caveats, family_marks
from ..evaluation.summaries import frontier, point, within
from ..evaluation.table import LINKS, Column, ResultTable, mark
from ..scoring.metrics import MAIN, label
from .report import Section, anchor, closed_book, forest_figure, listed, percent, quoted

ENDS: Mapping[str, str] = {
    "answered": "answered", "unanswered": "ended without an answer", "max_turns": "out of turns",
    "max_chars": "out of characters", "max_tokens": "out of tokens",
    "infra_error": "lost to infrastructure",
}  # fmt: skip
SMALL = 12
"""Families of fewer questions are in the table only."""
NOTE = "Mean and 95 % interval, bootstrap over questions (BCa)."


def mean_of(result: EvalResult, metric: str) -> float:
    """The mean of a metric; -1 where no question has a value, so that it sorts last."""
    value = result.means[metric].mean
    return value if value == value else -1.0


def best_of(results: Sequence[EvalResult], metric: str) -> EvalResult:
    """The best agent; an oracle, or one without tools, only if there is no other."""
    searching = [r for r in results if not closed_book(r)] or results
    agents = [r for r in searching if not r.ceiling] or searching
    return max(agents, key=lambda r: mean_of(r, metric))


def runner_up(results: Sequence[EvalResult], best: EvalResult, metric: str) -> EvalResult | None:
    """The next best agent that searches and is no oracle."""
    rivals = [r for r in results if r is not best and not closed_book(r)
              and not r.ceiling and r.means[metric].n]  # fmt: skip
    return max(rivals, key=lambda r: mean_of(r, metric), default=None)


def apart(best: EvalResult, second: EvalResult, metric: str) -> tuple[bool, str]:
    """Check whether an agent is above another beyond doubt, and say so: by their difference on the
    same questions, or where these differ by their own intervals."""
    try:
        gap = compare(best, second, metric).difference
    except EvaluationError:
        clear = second.means[metric].high < best.means[metric].low
        return clear, f"their intervals {'are apart' if clear else 'overlap'}"
    clear = gap.low > 0
    told = "on the same questions, " + ("" if clear else "not told apart: ")
    return clear, f"{told}a difference of {gap:.2f}"


def overall(results: Sequence[EvalResult], linked: bool = False) -> Section:
    """The main measures as a chart, all that differ as a table."""
    names = [r.agent for r in results]
    main = list(dict.fromkeys([*([] if results[0].metric in MAIN else ["reward"]), *MAIN]))
    known = [m for m in METRICS if any(r.means[m].n for r in results)]
    shown = [m for m in main if m in known]
    drawn = [m for m in shown if len(results) == 1 or not _constant(results, m)] or shown[:1]
    marks = [
        mark(r.means[m], m, y=r.agent, by=r.agent, facet=label(m))
        for m in drawn for r in results if r.means[m].n
    ]  # fmt: skip
    same = _same(results, [m for m in shown if m not in drawn])
    figure = forest_figure(
        "scores", _lead(results), NOTE + same + caveats(results), marks, names,
        "mean, 95 % interval", alt="Scores of each agent.", columns=2, width=270, own_rows=True,
        rate=[label(m) for m in drawn if METRICS[m]],
    )  # fmt: skip
    alike = [m for m in known if m not in main and _constant(results, m)]
    note = (
        f"{NOTE} EM: the normalised answer equals an accepted one; cover-EM: it contains one."
        f"{_same(results, alike)}{caveats(results)}"
    )
    leads = {LINKS: {n: f"#{anchor(n, 'all')}" for n in names}} if linked else {}
    rows = [
        {"measure": label(m), **{r.agent: _cell(r.means[m], m) for r in results}, **leads}
        for m in known if m not in alike
    ]  # fmt: skip
    columns = (Column("measure", "measure"), *(Column(n, n, 2) for n in names))
    table = ResultTable("means", "All measures", columns, tuple(rows), note)
    return Section("Scores", "", (figure, table))


def _cell(interval: Interval, metric: str) -> Interval | None:
    return interval.within(*limits(metric)) if interval.n else None


def _constant(results: Sequence[EvalResult], metric: str) -> bool:
    intervals = [r.means[metric] for r in results if r.means[metric].n]
    return len({round(i.mean, 9) for i in intervals}) <= 1 and (
        len(results) > 1 or all(np.ptp(r.values(metric)) == 0 for r in results)
    )


def _same(results: Sequence[EvalResult], metrics: Sequence[str]) -> str:
    told = [
        f"{label(m)} {next(r.means[m].mean for r in results if r.means[m].n):.3g}" for m in metrics
    ]
    return f" The same for all: {', '.join(told)}." if told else ""


def _lead(results: Sequence[EvalResult]) -> str:
    metric = results[0].metric
    best = best_of(results, metric)
    told = f"{quoted(best.agent)} reaches {label(metric)} {best.means[metric].mean:z.2f}"
    if (second := runner_up(results, best, metric)) is not None:
        told += f", {quoted(second.agent)} {second.means[metric].mean:z.2f}"
        told += f"; {apart(best, second, metric)[1]}"
    for r in results:
        if r.ceiling and r is not best and not closed_book(r):
            told += f"; the oracle {r.means[metric].mean:z.2f}"
    return told


def families(results: Sequence[EvalResult], linked: bool = False) -> Section | None:
    """Exact match, or the reward that ranks, by family of question; None where there is one. The
    chart leaves out families of fewer than :data:`SMALL` questions."""
    metric = "em" if results[0].metric == "f1" else results[0].metric
    name, counts = label(metric), Counter(row.family for row in results[0].rows)
    if len(counts) < 2:
        return None
    marks = family_marks(results, metric)
    cells = {(m["family"], m["by"]): Interval.read(m) for m in marks}
    rows = [
        {"family": f, "questions": counts[f], **{r.agent: cells.get((f, r.agent)) for r in results},
         **({LINKS: {r.agent: f"#{anchor(r.agent, f)}" for r in results}} if linked else {})}
        for f in sorted(counts)
    ]  # fmt: skip
    columns = (Column("family", "family"), Column("questions", "questions"),
               *(Column(r.agent, r.agent, 2) for r in results))  # fmt: skip
    note = NOTE + caveats(results)
    table = ResultTable("families", f"{name} by family", columns, tuple(rows), note)
    few = [f for f in sorted(counts) if counts[f] < SMALL]
    marks = [m for m in marks if m["family"] not in few]
    if not marks:
        return Section("By family", "", (table,))
    caption = NOTE + (f" Families of fewer than {SMALL} questions are in the table only: "
                      f"{', '.join(few)}." if few else "")  # fmt: skip
    best = best_of(results, metric)
    own = {str(m["family"]): float(m["mean"]) for m in marks if m["by"] == best.agent}
    high, low = max(own, key=own.__getitem__), min(own, key=own.__getitem__)
    title = f"{quoted(best.agent)} has {name} {own[high]:z.2f} on {high} questions"
    if own[high] > own[low]:
        title = (
            f"{quoted(best.agent)} is best at {high} questions ({name} {own[high]:z.2f}) "
            f"and worst at {low} ({own[low]:z.2f})"
        )
    figure = forest_figure(
        "families", title, caption, marks, [r.agent for r in results], f"{name}, 95 % interval",
        alt=f"{name} by family of question.", rate=METRICS[metric],
    )  # fmt: skip
    return Section("By family", "", (figure, table))


def costs(results: Sequence[EvalResult]) -> Section:
    """The metric that ranks against searches, and EM within a number of them."""
    metric = results[0].metric
    name = label(metric)
    points = {r.agent: point(r.agent, r.rows, metric) for r in results}
    rows = [
        {"agent": r.agent, "cost": round(points[r.agent].cost, 4),
         "score": round(points[r.agent].score, 5), "low": round(r.means[metric].low, 5),
         "high": round(r.means[metric].high, 5)}
        for r in results if r.means[metric].n
    ]  # fmt: skip
    kept = frontier([p for p in points.values() if p.score == p.score])
    line = [{"cost": round(p.cost, 4), "score": round(p.score, 5)} for p in kept]
    blocks = []
    if len(rows) > 1:
        names = listed([quoted(p.name) for p in kept])
        told = "; ".join(
            f"{r['agent']}: {r['cost']:.2f} searches, {name} {r['score']:.2f}" for r in rows
        )
        blocks.append(Figure(
            "frontier",
            f"{names} {'is' if len(kept) == 1 else 'are'} on the Pareto front: no other agent has "
            f"a higher {name} with as few searches",
            f"Dashed: the Pareto front. Vertical lines: 95 % intervals of {name}.",
            f"{name} against searches per question. {told}. On the Pareto front: {names}.",
            partial(cost_and_score, rows, line, "searches per question", name), tuple(rows),
        ))  # fmt: skip
    most = int(min(12, max(row.searches for r in results for row in r.rows)))
    if metric == "f1" and most > 0:
        blocks.append(_budgets(results, most))
    return Section("Cost", "", tuple(blocks))


def _budgets(results: Sequence[EvalResult], most: int) -> Figure:
    rows: list[dict[str, Any]] = [
        mark(interval, "em", x=budget, series=r.agent)
        for r in results
        for budget, interval in within(r.rows, range(most + 1), "em", seed=r.seed).items()
        if interval.n
    ]
    best = best_of(results, "em")
    own = {int(r["x"]): float(r["mean"]) for r in rows if r["series"] == best.agent}
    whole = own[max(own)]
    enough = next(x for x, mean in own.items() if mean >= 0.9 * whole)
    title = f"{quoted(best.agent)} answers nothing exactly, however often it searches"
    if whole > 0:
        part = "all" if own[enough] == whole else percent(own[enough] / whole)
        title = (
            f"{quoted(best.agent)} earns {part} of its EM of {whole:.2f} with at most {enough} "
            f"search{'es' * (enough != 1)}"
        )
    told = "; ".join(f"{r['series']}: {r['mean']:z.2f} within {r['x']}" for r in rows)
    return Figure(
        "budget", title,
        "Share of questions answered exactly with at most so many searches; bands: 95 % "
        "intervals. A lower bound of what the agent would do if it were told of the budget.",
        f"Share answered exactly within so many searches. {told}.",
        partial(steps, rows, [r.agent for r in results], "searches allowed",
                "EM within the budget"), tuple(rows),
    )  # fmt: skip


def ends(results: Sequence[EvalResult]) -> Section | None:
    """The chart of episodes' ends; None where all ended the same way."""
    seen = Counter(row.end for r in results for row in r.rows)
    parts = {e: ENDS.get(e, e) for e in (*ENDS, *sorted(set(seen) - set(ENDS))) if seen[e]}
    if len(parts) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for result in results:
        counts = Counter(row.end for row in result.rows)
        rows += [
            {"y": result.agent, "part": name, "place": i, "episodes": counts[end],
             "share": round(counts[end] / len(result.rows), 5)}
            for i, (end, name) in enumerate(parts.items())
        ]  # fmt: skip
    told = "; ".join(f"{r['y']}: {r['part']} {r['share']:.0%}" for r in rows if r["episodes"])
    odd = max((r for r in rows if r["part"] != "answered"), key=lambda r: float(r["share"]))
    figure = Figure(
        "ends",
        f"{percent(odd['share'])} of the episodes of {quoted(str(odd['y']))}: {odd['part']}, the "
        "largest share that did not end with an answer",
        "Share of all episodes.", f"How episodes ended. {told}.",
        partial(shares, rows, [r.agent for r in results], list(parts.values()),
                "share of episodes"), tuple(rows),
    )  # fmt: skip
    return Section("How episodes ended", "", (figure,))
