"""Output of ``searchgym eval`` about the agents it has measured: tables for people, JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..scoring.metrics import label
from ..text import printable
from .output import console, print_results, say

if TYPE_CHECKING:
    from ..evaluation.intervals import Interval
    from ..evaluation.metrics import Row
    from ..evaluation.result import EvalResult


class AgentResults(NamedTuple):
    """An agent's results: one per sample, with tools and without; one of the two may be empty."""

    opened: tuple[EvalResult, ...]
    closed: tuple[EvalResult, ...]

    @property
    def shown(self) -> tuple[EvalResult, ...]:
        """The results that the scores are read from."""
        return self.opened or self.closed

    @property
    def first(self) -> EvalResult:
        return self.shown[0]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all samples."""
        return tuple(row for result in self.shown for row in result.rows)

    @property
    def closed_rows(self) -> tuple[Row, ...]:
        return tuple(row for result in self.closed for row in result.rows)


def print_scores(measured: Sequence[AgentResults], env: str, *, full: bool = False) -> None:
    """One table and one verdict; ``full``: every table that says something."""
    from ..evaluation.comparison import unreadable, unreadable_note
    from ..evaluation.differences import power_note
    from ..evaluation.result import caveats

    n, several = len(measured[0].first.rows), len(measured[0].shown)
    samples = f", the first of {several} samples" if several > 1 else ""
    print_results(
        f"{env}: {n:,} question{'s' * (n != 1)}{samples}; mean [95 % interval]",
        [_scores(m) for m in measured],
    )
    out = console()
    out.print(printable(verdict(measured) + caveats(m.first for m in measured)), markup=False)
    for note in filter(None, (power_note(n), _unasked(measured))):
        say(textwrap.fill(note, out.width))
    for m in measured:
        if (wrong := unreadable(m.opened or m.closed)) is not None:
            say(textwrap.fill(printable(unreadable_note(m.first.agent, wrong)), out.width))
    print_results("The judge beside exact match", [_judged(m) for m in measured if _has_judge(m)])
    if full:
        _print_all(measured)
    elif out.is_terminal:
        say("more: --full prints cost, families, refusals and every interval")


def _means(measured: Sequence[AgentResults], *metrics: str) -> list[dict[str, Any]]:
    return [
        {"agent": m.first.agent, **{label(k): m.first.means[k] for k in metrics}} for m in measured
    ]


def _print_all(measured: Sequence[AgentResults]) -> None:
    several = len(measured[0].shown)
    print_results("Scores, mean [95 % interval]", _means(measured, "em", "f1", "cover_em"), 3)
    evidence = _means(measured, "evidence_recall", "evidence_precision", "evidence_ndcg")
    print_results("Evidence, mean [95 % interval]", evidence, 3)
    counters = ", ".join(dict.fromkeys(m.first.settings["tokens"] for m in measured))
    print_results(f"Cost per question (tokens counted by: {counters})", _took(measured))
    if several > 1:
        rows = [{"agent": m.first.agent, **_samples(m)} for m in measured]
        print_results(f"All {several} samples of each question", rows)
    if len({row.family for m in measured for row in m.first.rows}) > 1:
        metric = "em" if (own := measured[0].first.metric) == "f1" else own
        title = "Exact match" if metric == "em" else label(metric).capitalize()
        print_results(f"{title} by family", _families(measured, metric))
    print_results("Used by the agents", [
        {"agent": m.first.agent, **m.first.usage} for m in measured if m.first.usage
    ])  # fmt: skip
    print_results("Refusals, where some questions have no answer", [
        _refusals(m.first) for m in measured if any(r.should_abstain for r in m.first.rows)
    ])  # fmt: skip
    print_results("Does the agent search only for what it does not know?", [
        row for m in measured for row in _boundary(m)
    ], 3)  # fmt: skip
    print_results(
        "Episodes lost to the infrastructure, at their n-th search (not in the means)",
        [row for m in measured for row in lost(m.first)], 3,
    )  # fmt: skip
    if len(measured) > 1:
        from ..evaluation.summaries import frontier, point

        points = [point(m.first.agent, m.first.rows, m.first.metric) for m in measured]
        worth = ", ".join(p.name for p in frontier(points))
        say(f"Pareto front (no agent scores better with fewer searches): {worth}")


def verdict(measured: Sequence[AgentResults]) -> str:
    """One sentence: which agent leads in F1, or in reward where no answer is given, and whether the
    next one is told apart from it; or which are equal."""
    from ..evaluation.differences import paired_interval

    metric = measured[0].first.metric
    name = label(metric)
    bounds = [m for m in measured if m.first.ceiling]
    ranked = sorted(
        (m for m in measured if m not in bounds), key=lambda m: -_mean(m.first.means[metric])
    )
    if not ranked:
        bound = bounds[0].first
        return (
            f"Only {bound.agent} played, which is told what to search for: its {name} "
            f"{bound.means[metric]:.2f} is an upper bound."
        )
    first = ranked[0].first
    score = first.means[metric]
    if not score.n:
        return f"{first.agent} has no measured question."
    if len(ranked) == 1:
        told = f"{first.agent}: {name} {score:.2f}"
        if book := first.closed_book.get(metric):
            told += f"; {book.mean:.2f} without searching"
    elif len(equal := [m for m in ranked if _mean(m.first.means[metric]) == score.mean]) > 1:
        *others, last = (m.first.agent for m in equal)
        told = f"{', '.join(others)} and {last} are equal, with {name} {score.mean:.2f}"
    else:
        second = ranked[1].first
        gap = paired_interval(first.values(metric), second.values(metric), seed=first.seed)
        told = f"{first.agent} leads with {name} {score.mean:.2f}, "
        told += (
            f"{gap.mean:.2f} [{gap.low:.2f}, {gap.high:.2f}] above {second.agent}"
            if gap.excludes(0)
            else f"but cannot be told apart from {second.agent} ({second.means[metric].mean:.2f})"
        )
    if bounds:
        bound = bounds[0].first
        told += f"; {bound.agent}, an upper bound, has {bound.means[metric].mean:.2f}"
    return told + "."


def _mean(interval: Interval) -> float:
    return interval.mean if interval.n else -1.0


def _families(measured: Sequence[AgentResults], metric: str) -> list[dict[str, Any]]:
    """Questions of each family, and every agent's scores there, with intervals."""
    from ..evaluation.intervals import Interval
    from ..evaluation.result import family_marks

    rows: dict[str, dict[str, Any]] = {}
    counts = Counter(row.family for row in measured[0].first.rows)
    for found in family_marks([m.first for m in measured], metric):
        family = found["family"]
        row = rows.setdefault(family, {"family": family, "questions": counts[family]})
        row[found["by"]] = Interval.read(found)
    return list(rows.values())


def records(measured: Sequence[AgentResults], env: str) -> list[dict[str, Any]]:
    """The same as JSON values, one record an agent."""
    return [_record(m, env) for m in measured]


def _record(m: AgentResults, env: str) -> dict[str, Any]:
    from ..evaluation.comparison import unreadable
    from ..evaluation.summaries import within

    first = m.first
    most = max(row.searches for row in first.rows)
    out = {
        "agent": first.agent,
        "env": env,
        "questions": len(first.rows),
        "measured": len(first.rows) - first.infra_errors,
        "metric": first.metric,
        "seed": first.seed,
        "means": {name: interval._asdict() for name, interval in first.means.items()},
        "closed_book": {k: v._asdict() for k, v in first.closed_book.items()},
        "em_by_family": first.by_family(),
        "em_within_searches": {
            n: v._asdict() for n, v in within(first.rows, range(most + 1)).items()
        },
        "infra_errors": first.infra_errors,
        "lost_by_searches": lost(first),
        "usage": dict(first.usage),
        "seconds": first.duration_s,
        "tokens": first.settings["tokens"],
    }
    if (wrong := unreadable(m.shown)) is not None:
        out["unreadable"] = wrong
    if len(m.shown) > 1:
        out["samples"] = {name: v._asdict() for name, v in _samples(m).items()}
    for row in _boundary(m):
        out["knowledge_boundary"] = {**row, "F1": str(row["F1"])}
        del out["knowledge_boundary"]["agent"]
    if _has_judge(m):
        out["judge"] = {**first.settings["judge"], **_judged(m)}
    return out


# --- rows of the tables -----------------------------------------------------------------------
def _scores(m: AgentResults) -> dict[str, Any]:
    first = m.first
    shown: dict[str, Any] = {"agent": first.agent}
    if first.infra_errors:
        shown["measured"] = len(first.rows) - first.infra_errors
    own = ("em", "f1") if first.metric == "f1" else (first.metric,)
    for metric in (*own, *(("judge",) if _has_judge(m) else ())):
        mean = first.means[metric]  # the interval of one: a second makes lines of 90 columns
        shown[label(metric)] = mean if metric == first.metric else mean.n and mean.mean
    shown["recall"] = first.means["evidence_recall"].mean
    shown["searches"] = first.means["searches"].mean
    if m.opened and "em" in own:
        book = first.closed_book.get("em")
        shown["closed-book EM"] = book and book.mean
    return shown


def _took(measured: Sequence[AgentResults]) -> list[dict[str, Any]]:
    """Searches, tokens, …; pages and dollars only where there were any."""
    rare = ("accesses", "cost", "overflowed", "length_cut")
    used = [
        name
        for name in ("searches", "accesses", "turns", "tokens_in", "tokens_out", "cost",
                     "invalid_rate", "truncated", "overflowed", "length_cut")
        if name not in rare or any(m.first.means[name].mean > 0 for m in measured)
    ]  # fmt: skip
    rows = []
    for m in measured:
        row: dict[str, Any] = {"agent": m.first.agent}
        for name in used:
            cell = m.first.means[name]
            row[name.replace("_", " ")] = f"${cell:.5f}" if name == "cost" and cell.n else cell
        rows.append(row)
    return rows


def _samples(m: AgentResults) -> dict[str, Interval]:
    """pass@1, 2, 4, … up to the number of samples, and Avg@k over all of them."""
    from ..evaluation.summaries import avg_at, pass_at

    k = len(m.shown)
    ks = sorted({k, *(2**i for i in range(k.bit_length()) if 2**i <= k)})
    chances = {f"pass@{n}": v for n, v in pass_at(m.rows, ks).items()}
    return {**chances, f"avg@{k} em": avg_at(m.rows, k), f"avg@{k} f1": avg_at(m.rows, k, "f1")}


def _refusals(result: EvalResult) -> dict[str, Any]:
    from ..evaluation.decisions import abstention

    abstained = abstention(result.rows)
    return {
        "agent": result.agent,
        "F1": abstained.refusals.f1(),
        "precision": abstained.refusals.precision,
        "recall": abstained.refusals.recall,
        "wrongly refused": abstained.refusals.false_alarm_rate,
        "EM if answered": abstained.answered,
        "invented": abstained.invented,
    }


def _boundary(m: AgentResults) -> list[dict[str, Any]]:
    """A row, if the agent was asked both ways and knows anything."""
    from ..evaluation.decisions import boundary

    confusion = boundary(m.rows, m.closed_rows) if m.opened and m.closed else None
    if confusion is None:
        return []
    return [{
        "agent": m.first.agent, "F1": confusion.f1(), "known, not searched": confusion.hits,
        "known, searched": confusion.missed, "unknown, not searched": confusion.false_alarms,
        "unknown, searched": confusion.rejected,
    }]  # fmt: skip


def _has_judge(m: AgentResults) -> bool:
    return bool(m.first.settings.get("judge"))


def _judged(m: AgentResults) -> dict[str, Any]:
    from ..evaluation.judge import agreement

    agreed = agreement(m.first.rows)
    return {
        "agent": m.first.agent,
        "answers": agreed.verdicts.n + agreed.unjudged,
        "same as exact match": agreed.share,
        "right for the judge only": agreed.verdicts.false_alarms,
        "right by exact match only": agreed.verdicts.missed,
        "not judged": agreed.unjudged,
    }


def lost(result: EvalResult) -> list[dict[str, Any]]:
    """Return what the infrastructure cost, by number of searches; empty if it cost nothing."""
    from ..evaluation.summaries import lost_by_searches

    if not result.infra_errors:
        return []
    retries = int(result.settings["rules"]["max_retries"])
    return [
        {"agent": result.agent, **line._asdict()} for line in lost_by_searches(result.rows, retries)
    ]


def _unasked(measured: Sequence[AgentResults]) -> str | None:
    names = [m.first.agent for m in measured if m.opened and not m.closed]
    if not names or not measured[0].first.settings["rules"]["tools"]:
        return None
    return (
        f"closed book not asked of {', '.join(names)}: asking twice may cost money or was not "
        "wanted; --closed-book both asks"
    )
