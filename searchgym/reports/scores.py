"""Scores of agents on one set: overall, by family, what searches buy, how episodes ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..charts.figure import Figure
from ..charts.forest import forest
from ..charts.planes import cost_and_score, shares, steps
from ..errors import EvaluationError
from ..evaluation.display import caveats, family_rows, numbers
from ..evaluation.frontier import frontier, point, within
from ..evaluation.intervals import Interval
from ..evaluation.metrics import METRICS, limits
from ..evaluation.result import EvalResult, compare
from ..scoring.metrics import MAIN, label
from .episodes import anchor
from .naming import closed_book, listed, percent, quoted
from .report import LINKS, Column, Section, Table

ENDS = ("answered", "unanswered", "max_turns", "max_chars", "max_tokens", "infra_error")
END_NAMES: Mapping[str, str] = {
    "unanswered": "ended without an answer", "max_turns": "out of turns",
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


def overall(results: Sequence[EvalResult], linked: bool = False) -> Section:
    """The main measures as a chart, all that differ as a table."""
    names = [r.agent for r in results]
    main = list(dict.fromkeys([*([] if results[0].metric in MAIN else ["reward"]), *MAIN]))
    shown = [m for m in main if any(r.means[m].n for r in results)]
    drawn = [m for m in shown if len(results) == 1 or not _constant(results, m)] or shown[:1]
    rows = [
        {"y": r.agent, "by": r.agent, "facet": label(m), **numbers(r.means[m], m)}
        for m in drawn for r in results if r.means[m].n
    ]  # fmt: skip
    alt = "Scores of each agent. " + "; ".join(
        f"{r.agent}: " + ", ".join(f"{label(m)} {r.means[m].mean:.2f}" for m in shown
                                   if r.means[m].n) for r in results
    )  # fmt: skip
    same = _same(results, [m for m in shown if m not in drawn])
    figure = Figure(
        "scores", _lead(results), NOTE + same + caveats(results), alt + ".",
        partial(forest, rows, by=names, x_title="mean, 95 % interval", columns=2, width=270,
                own_rows=True, rate=[label(m) for m in drawn if METRICS[m]]), tuple(rows),
    )  # fmt: skip
    known = [m for m in METRICS if any(r.means[m].n for r in results)]
    alike = [m for m in known if m not in main and _constant(results, m)]
    note = (
        f"{NOTE} EM: the normalised answer equals an accepted one; cover-EM: it contains one."
        + _same(results, alike)
        + caveats(results)
    )
    columns = [Column("measure", "measure"), *(Column(n, n, 2) for n in names)]
    leads = {r.agent: f"#{anchor(r.agent, 'all')}" for r in results}
    table = Table(
        "means", "All measures", tuple(columns),
        tuple(
            {"measure": label(m),
             **{r.agent: _cell(r.means[m], m) for r in results},
             **({LINKS: leads} if linked else {})}
            for m in known if m not in alike
        ), note,
    )  # fmt: skip
    return Section("Scores", "", (figure, table))


def _cell(interval: Interval, metric: str) -> Interval | None:
    return interval.within(*limits(metric)) if interval.n else None


def _constant(results: Sequence[EvalResult], metric: str) -> bool:
    """Every question of every agent has the same value."""
    intervals = [r.means[metric] for r in results if r.means[metric].n]
    return len({round(i.mean, 9) for i in intervals}) <= 1 and (
        len(results) > 1 or all(np.ptp(r.values(metric)) == 0 for r in results)
    )


def _same(results: Sequence[EvalResult], metrics: Sequence[str]) -> str:
    """A sentence on measures that are the same for all agents."""
    told = [
        f"{label(m)} {next(r.means[m].mean for r in results if r.means[m].n):.3g}" for m in metrics
    ]
    return f" The same for all: {', '.join(told)}." if told else ""


def _lead(results: Sequence[EvalResult]) -> str:
    metric = results[0].metric
    best = best_of(results, metric)
    told = f"{quoted(best.agent)} reaches {label(metric)} {best.means[metric].mean:.2f}"
    if (second := runner_up(results, best, metric)) is not None:
        told += f", {quoted(second.agent)} {second.means[metric].mean:.2f}"
        told += f"; {apart(best, second, metric)[1]}"
    for r in results:
        if r.ceiling and r is not best and not closed_book(r):
            told += f"; the oracle {r.means[metric].mean:.2f}"
    return told


def runner_up(results: Sequence[EvalResult], best: EvalResult, metric: str) -> EvalResult | None:
    """The next best agent that searches and is no oracle."""
    rivals = [r for r in results if r is not best and not closed_book(r)
              and not r.ceiling and r.means[metric].n]  # fmt: skip
    return max(rivals, key=lambda r: mean_of(r, metric), default=None)


def apart(best: EvalResult, second: EvalResult, metric: str) -> tuple[bool, str]:
    """Whether an agent is above another beyond doubt, and the words for it: by their difference on
    the same questions, or where these differ by their own intervals."""
    try:
        gap = compare(best, second, metric).difference
    except EvaluationError:
        clear = second.means[metric].high < best.means[metric].low
        return clear, f"their intervals {'are apart' if clear else 'overlap'}"
    clear = gap.low > 0
    told = "on the same questions, " + ("" if clear else "not told apart: ")
    return clear, f"{told}a difference of {gap:.2f}"


def families(results: Sequence[EvalResult], linked: bool = False) -> Section | None:
    """Exact match, or the reward that ranks, by family of question; None where there is one."""
    metric = "em" if results[0].metric == "f1" else results[0].metric
    counts = Counter(row.family for row in results[0].rows)
    if len(counts) < 2:
        return None
    rows = family_rows(results, metric)
    cells = {(r["family"], r["by"]): Interval.read(r) for r in rows}
    columns = [Column("family", "family"), Column("questions", "questions")]
    columns += [Column(r.agent, r.agent, 2) for r in results]
    table = Table(
        "families", f"{label(metric)} by family", tuple(columns),
        tuple(
            {"family": f, "questions": counts[f],
             **{r.agent: cells.get((f, r.agent)) for r in results},
             **({LINKS: {r.agent: f"#{anchor(r.agent, f)}" for r in results}} if linked else {})}
            for f in sorted(counts)
        ), NOTE + caveats(results),
    )  # fmt: skip
    figure = family_figure(results, metric)
    return Section("By family", "", (figure, table) if figure else (table,))


def family_figure(
    results: Sequence[EvalResult], metric: str, least: int = SMALL
) -> Figure | None:  # fmt: skip
    """The same as a chart; None where every family has fewer than ``least`` questions."""
    counts = Counter(row.family for row in results[0].rows)
    rows = [r for r in family_rows(results, metric) if counts[r["family"]] >= least]
    if not rows:
        return None
    few = [f for f in sorted(counts) if counts[f] < least]
    caption = NOTE + (f" Families of fewer than {least} questions are in the table only: "
                      f"{', '.join(few)}." if few else "")  # fmt: skip
    best = best_of(results, metric)
    own = {str(r["family"]): float(r["mean"]) for r in rows if r["by"] == best.agent}
    high, low = max(own, key=own.__getitem__), min(own, key=own.__getitem__)
    title = f"{quoted(best.agent)} has {label(metric)} {own[high]:.2f} on {high} questions"
    if own[high] > own[low]:
        title = (
            f"{quoted(best.agent)} is best at {high} questions ({label(metric)} {own[high]:.2f}) "
            f"and worst at {low} ({own[low]:.2f})"
        )
    return Figure(
        "families", title, caption,
        f"{label(metric)} by family of question. {best.agent}: "
        + ", ".join(f"{f} {v:.2f}" for f, v in own.items()) + ".",
        partial(forest, rows, by=[r.agent for r in results], rate=METRICS[metric],
                x_title=f"{label(metric)}, 95 % interval"),
        tuple(rows),
    )  # fmt: skip


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
        verb = "is" if len(kept) == 1 else "are"
        blocks.append(Figure(
            "frontier",
            f"{names} {verb} on the Pareto front: no other agent has a higher {name} with as few "
            "searches",
            "Dashed: the Pareto front. Vertical lines: 95 % intervals of " + f"{name}.",
            f"{name} against searches per question. " + "; ".join(
                f"{r['agent']}: {r['cost']:.2f} searches, {name} {r['score']:.2f}" for r in rows
            ) + f". On the Pareto front: {names}.",
            partial(cost_and_score, rows, line, "searches per question", name), tuple(rows),
        ))  # fmt: skip
    most = int(min(12, max(row.searches for r in results for row in r.rows)))
    if metric == "f1" and most > 0:
        blocks.append(_budgets(results, most))
    return Section("Cost", "", tuple(blocks))


def _budgets(results: Sequence[EvalResult], most: int) -> Figure:
    rows: list[dict[str, Any]] = [
        {"x": budget, "series": r.agent, "mean": round(i.mean, 5), "low": round(i.low, 5),
         "high": round(i.high, 5)}
        for r in results
        for budget, i in within(r.rows, range(most + 1), "em", seed=r.seed).items() if i.n
    ]  # fmt: skip
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
    return Figure(
        "budget", title,
        "Share of questions answered exactly with at most so many searches; bands: 95 % "
        "intervals. A lower bound of what the agent would do if it were told of the budget.",
        "Share answered exactly within so many searches. " + "; ".join(
            f"{r.agent}: " + ", ".join(f"{b['mean']:.2f} within {b['x']}" for b in rows
                                       if b["series"] == r.agent) for r in results
        ) + ".",
        partial(steps, rows, [r.agent for r in results], "searches allowed",
                "EM within the budget"), tuple(rows),
    )  # fmt: skip


def ends(results: Sequence[EvalResult]) -> Section | None:
    """Return the chart of episodes' ends; None where all ended the same way."""
    seen = Counter(row.end for r in results for row in r.rows)
    parts = [e for e in (*ENDS, *sorted(set(seen) - set(ENDS))) if seen[e]]
    if len(parts) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for result in results:
        counts = Counter(row.end for row in result.rows)
        rows += [
            {"y": result.agent, "part": END_NAMES.get(e, e), "place": i, "episodes": counts[e],
             "share": round(counts[e] / len(result.rows), 5)}
            for i, e in enumerate(parts)
        ]  # fmt: skip
    alt = "How episodes ended. " + "; ".join(
        f"{r.agent}: " + ", ".join(f"{row['part']} {row['share']:.0%}" for row in rows
                                   if row["y"] == r.agent and row["episodes"]) for r in results
    )  # fmt: skip
    odd = max((r for r in rows if r["part"] != "answered"), key=lambda r: float(r["share"]))
    figure = Figure(
        "ends",
        f"{percent(odd['share'])} of the episodes of {quoted(str(odd['y']))}: {odd['part']}, the "
        "largest share that did not end with an answer",
        "Share of all episodes.", alt + ".",
        partial(shares, rows, [r.agent for r in results], [END_NAMES.get(e, e) for e in parts],
                "share of episodes"), tuple(rows),
    )  # fmt: skip
    return Section("How episodes ended", "", (figure,))
