"""Results as people look at them: one line, a table in a notebook, a data frame, a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..charts.figure import Figure
from ..charts.forest import forest
from ..dialects import get_dialect
from ..errors import EvaluationError, MissingExtraError, SearchGymError, unknown
from ..scoring.metrics import MAIN, label
from ..types import Action, Answer, Search
from ..utils.trust import registered_only
from .intervals import Interval, mean_interval
from .metrics import METRICS, column, limits

if TYPE_CHECKING:
    import pandas

    from .result import Comparison, EvalResult


def numbers(interval: Interval, metric: str) -> dict[str, Any]:
    """Return the fields of a mark, its interval within what is possible."""
    least, most = limits(metric)
    return {
        "mean": round(interval.mean, 5), "low": round(max(least, interval.low), 5),
        "high": round(min(most, interval.high), 5), "questions": interval.n,
    }  # fmt: skip


def family_rows(results: Sequence[EvalResult], metric: str) -> list[dict[str, Any]]:
    """Return a mark for each family and agent, families in alphabetical order."""
    counts = Counter(row.family for row in results[0].rows)
    rows: list[dict[str, Any]] = []
    for family in sorted(counts):
        for result in results:
            names = np.array([row.family for row in result.rows])
            interval = mean_interval(
                column(result.rows, metric)[names == family], seed=result.seed,
                unit=METRICS.get(metric, False),
            )  # fmt: skip
            if interval.n:
                rows.append({
                    "y": f"{family} ({counts[family]})", "by": result.agent, "family": family,
                    **numbers(interval, metric),
                })  # fmt: skip
    return rows


def counted(result: EvalResult) -> str:
    """Return the number of questions behind a result's means; of lost episodes, too, if any are."""
    n, lost = len(result.rows), result.infra_errors
    return (
        f"{n - lost:,} of {n:,} questions measured, {lost:,} lost" if lost else f"{n:,} questions"
    )


def caveats(results: Iterable[EvalResult]) -> str:
    """Return sentences, with a blank before each, on the episodes that are in no mean, and on
    agents most of whose turns were no legal action; "" if there are none."""
    results = list(results)
    told = [f"{r.agent} {r.infra_errors:,} of {len(r.rows):,}" for r in results if r.infra_errors]
    note = f" Lost to the infrastructure and in no mean: {', '.join(told)}." if told else ""
    told = [
        f"{r.agent} {100 * share:.0f} % on {r.set}"
        for r in results
        if (share := no_action(r)) > 0.5
    ]
    return note + (f" Most turns were no legal action: {', '.join(told)}." if told else "")


def no_action(result: EvalResult) -> float:
    """Return the share of an agent's turns that were not a legal action."""
    rows = [row for row in result.rows if not row.infra_error]
    return sum(row.invalid for row in rows) / max(1, sum(row.turns for row in rows))


def unreadable(results: Sequence[EvalResult]) -> dict[str, Any] | None:
    """Return the share of an agent's turns that were no legal action, one of them with the reason,
    and what could be read; None unless most were none.

    Args:
        results: Results of one agent: samples, or rungs.
    """
    wrong = [r for r in results if no_action(r) > 0.5]
    if not wrong:
        return None
    example = next((row.no_action for r in wrong for row in r.rows if row.no_action), "")
    share = max(map(no_action, wrong))
    return {"share": share, "example": example, "expected": _readable(wrong[0].settings)}


def unreadable_note(agent: str, found: Mapping[str, Any]) -> str:
    """Return what :func:`unreadable` found as a sentence."""
    shown = f" One of them: {found['example']}." if found["example"] else ""
    form = f" What it could write: {found['expected']}" if found["expected"] else ""
    return f"{agent}: {100 * found['share']:.0f} % of its turns were no legal action.{shown}{form}"


_CHATS = {
    "ReActAgent": "Action: search[a query]   or   Action: finish[a name]",
    "ToolCallingAgent": "a call of the function search or answer "
    "(does the model's server read calls from its text?)",
}
"""Name of an agent's class that has a form of its own → that form."""


def _readable(settings: Mapping[str, Any]) -> str:
    """A search and an answer as the agent would write them; "" where that is not known."""
    form = _CHATS.get(str(settings.get("agent", {}).get("class", "")).rpartition(":")[2])
    if form is not None:
        return form
    try:
        with registered_only("the result"):
            dialect = get_dialect(settings["rules"]["dialect"])
            asks = settings.get("search_enabled", True) and Search in dialect.renders
            actions: list[Action] = [Answer("a name")]
            if asks:
                actions.insert(0, Search(("a query",)))
            return "   or   ".join(dialect.render_action(action).strip() for action in actions)
    except SearchGymError:  # a dialect of somebody else's
        return ""


def line_of(result: EvalResult) -> str:
    """Return a result in one line: agent, set, questions, main means."""
    means = ", ".join(f"{label(m)} {result.means[m]:.2f}" for m in MAIN if result.means[m].n)
    odd = "" if result.complete else ", interrupted"
    if (share := no_action(result)) > 0.5:
        odd += f", {100 * share:.0f} % of the turns no legal action"
    return f"{result.agent} on {result.set}: {counted(result)}{odd}, {means}"


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return a data frame with a row for each record; ``MissingExtraError`` without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("a data frame (pandas)", "frames") from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a table for notebooks, every text escaped; the first column is to the left."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(
            f'<td style="text-align:{"left" if i == 0 else "right"}">{escape(text)}</td>'
            for i, text in enumerate(row)
        ) + "</tr>" for row in rows
    )  # fmt: skip
    return (
        f'<table><caption style="text-align:left">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def html_of(result: EvalResult) -> str:
    """Return the main means, overall and by family, as a table."""
    shown = [m for m in MAIN if result.means[m].n]
    names = np.array([row.family for row in result.rows])
    counts = Counter(names.tolist())
    measured = np.array([not row.infra_error for row in result.rows], dtype=bool)

    def line(name: str, kept: Any) -> list[str]:
        cells = []
        for metric in shown:
            values = column(result.rows, metric)[kept]
            interval = mean_interval(values, seed=result.seed, unit=METRICS[metric])
            cells.append(f"{interval:.2f}")
        return [name, f"{int(np.sum(kept & measured)):,}", *cells]

    rows = [line("all", np.ones(len(names), dtype=bool))] if len(names) else []
    rows += [line(f, names == f) for f in sorted(counts)] if len(counts) > 1 else []
    told = "" if result.complete else ", interrupted"
    caption = f"{result.agent} on {result.set}, {counted(result)}{told}: mean [95 % interval]"
    return html_table(["questions", "n", *map(label, shown)], rows, caption)


def plot_results(results: Sequence[EvalResult], metric: str = "f1", by: str = "family") -> Figure:
    """Draw a metric of one result or of several, by family of question or of all questions.

    Raises:
        EvaluationError: another ``by``, an unknown metric, or two results of one agent.
        MissingExtraError: the extra ``report`` is missing.
    """
    if by not in ("family", "all"):
        raise EvaluationError(unknown("way to divide the questions", by, ("family", "all")))
    agents = [r.agent for r in results]
    if len(set(agents)) < len(agents):
        raise EvaluationError(
            f"two results of one agent ({', '.join(agents)}): evaluate(…, name=…) names them"
        )
    column(results[0].rows, metric)  # an unknown metric is an error, known ones are named in it
    rate = METRICS.get(metric, False)
    means = {r.agent: r.means[metric] for r in results}
    told = ", ".join(f"{a} {i.mean:.2f}" for a, i in means.items() if i.n)
    if by == "family":
        rows = family_rows(results, metric)
    else:
        rows = [{"y": a, "by": a, **numbers(i, metric)} for a, i in means.items() if i.n]
    return Figure(
        metric, f"{label(metric)} on {results[0].set}: {told}",
        "Mean and 95 % interval, bootstrap over questions (BCa); number of questions in brackets."
        + caveats(results),
        f"{label(metric)}: " + "; ".join(f"{r['by']}, {r['y']}: {r['mean']:.2f}" for r in rows),
        partial(forest, rows, by=agents, own_rows=by == "all", rate=rate,
                x_title=f"{label(metric)}, 95 % interval"),
        tuple(rows),
    )  # fmt: skip


def said_of(comparison: Comparison) -> str:
    """Return a comparison in one line."""
    difference = f"{label(comparison.metric)} {comparison.difference:+.3f}"
    lost = f", {comparison.lost:,} lost" if comparison.lost else ""
    return (
        f"{comparison.a} − {comparison.b}: {difference}, p = {comparison.p:.4f}, "
        f"{comparison.difference.n:,} questions{lost}"
    )


def html_of_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons as a table."""
    rows = [
        [f"{c.a} − {c.b}", f"{c.mean_a:.3f}", f"{c.mean_b:.3f}", f"{c.difference:+.3f}",
         f"{c.p:.4f}", f"{c.difference.n:,}", f"{c.lost:,}"]
        for c in comparisons
    ]  # fmt: skip
    head = ["agents", "first", "second", "difference", "p", "questions", "lost"]
    return html_table(head, rows, f"{label(comparisons[0].metric)}, paired on the same questions")


def _left_out(comparisons: Sequence[Comparison]) -> str:
    told = [f"{c.a} − {c.b} {c.lost:,}" for c in comparisons if c.lost]
    return f" Left out, because an episode was lost: {', '.join(told)}." if told else ""


def plot_comparisons(comparisons: Sequence[Comparison]) -> Figure:
    """Draw the differences of comparisons with their intervals."""
    rows = [
        {"y": f"{c.a} − {c.b}", "by": f"{c.a} − {c.b}", "mean": round(c.difference.mean, 5),
         "low": round(c.difference.low, 5), "high": round(c.difference.high, 5),
         "questions": c.difference.n}
        for c in comparisons
    ]  # fmt: skip
    name = label(comparisons[0].metric)
    apart = [
        str(r["y"]) for r, c in zip(rows, comparisons, strict=True) if c.difference.excludes(0)
    ]
    title = f"Apart from 0: {', '.join(apart)}" if apart else "No difference is apart from 0"
    return Figure(
        "differences", title, "Paired on the same questions, with 95 % intervals."
        + _left_out(comparisons),
        f"Differences in {name}: " + "; ".join(f"{r['y']} {r['mean']:+.3f}" for r in rows),
        partial(forest, rows, by=[str(r["y"]) for r in rows], own_rows=True, rate=False, zero=0.0,
                x_title=f"difference in {name}, 95 % interval"),
        tuple(rows),
    )  # fmt: skip
