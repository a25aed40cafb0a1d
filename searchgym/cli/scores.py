"""Output of ``searchgym eval`` about the agents it has measured: tables for people, JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..scoring.metrics import label
from ..text import printable
from .output import console, print_table, say

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
    from ..evaluation.display import caveats, unreadable, unreadable_note
    from ..evaluation.power import power_note

    n, several = len(measured[0].first.rows), len(measured[0].shown)
    samples = f", the first of {several} samples" if several > 1 else ""
    print_table(
        f"{env}: {n:,} questions{samples}; mean [95 % interval]",
        [_scores(m) for m in measured],
    )
    out = console()
    out.print(printable(verdict(measured) + caveats(m.first for m in measured)), markup=False)
    for note in filter(None, (power_note(n), _unasked(measured))):
        say(textwrap.fill(note, out.width))
    for m in measured:
        if (wrong := unreadable(m.opened or m.closed)) is not None:
            say(textwrap.fill(printable(unreadable_note(m.first.agent, wrong)), out.width))
    if judged := [_judged(m.first) for m in measured if _has_judge(m.first)]:
        print_table("The judge beside exact match", judged)
    if full:
        _print_all(measured)
    elif out.is_terminal:
        say("more: --full prints cost, families, refusals and every interval")


def _print_all(measured: Sequence[AgentResults]) -> None:
    several = len(measured[0].shown)
    for title, metrics in (
        ("Scores, mean [95 % interval]", ("em", "f1", "cover_em")),
        ("Evidence, mean [95 % interval]",
         ("evidence_recall", "evidence_precision", "evidence_ndcg")),
    ):  # fmt: skip
        rows = [
            {"agent": m.first.agent, **{label(k): str(m.first.means[k]) for k in metrics}}
            for m in measured
        ]
        print_table(title, rows)
    counters = ", ".join(dict.fromkeys(m.first.settings["tokens"] for m in measured))
    print_table(f"Cost per question (tokens counted by: {counters})", _took(measured))
    if several > 1:
        print_table(f"All {several} samples of each question", [_sampled(m) for m in measured])
    if len({row.family for m in measured for row in m.first.rows}) > 1:
        metric = _right(measured)
        title = "Exact match" if metric == "em" else label(metric).capitalize()
        print_table(f"{title} by family", _families(measured, metric))
    optional = {
        "Used by the agents": [
            {"agent": m.first.agent, **m.first.usage} for m in measured if m.first.usage
        ],
        "Refusals, where some questions have no answer": [
            _refusals(m.first) for m in measured if any(r.should_abstain for r in m.first.rows)
        ],
        "Does the agent search only for what it does not know?": [
            row for m in measured for row in _boundary(m)
        ],
        "Episodes lost to the infrastructure, at their n-th search (not in the means)": [
            row for m in measured for row in lost(m.first)
        ],
    }
    for title, rows in optional.items():
        if rows:
            print_table(title, rows)
    if len(measured) > 1:
        worth = ", ".join(p.name for p in _frontier(measured))
        say(f"Pareto front (no agent scores better with fewer searches): {worth}")


def verdict(measured: Sequence[AgentResults]) -> str:
    """One sentence: which agent leads in F1, or in reward where no answer is given, and whether the
    next one is told apart from it; or which are equal."""
    from ..evaluation.intervals import paired_interval

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


def _right(measured: Sequence[AgentResults]) -> str:
    """The metric of single families: exact match, or the reward where no answer is given."""
    return "em" if (own := measured[0].first.metric) == "f1" else own


def _families(measured: Sequence[AgentResults], metric: str) -> list[dict[str, Any]]:
    """Questions of each family, and every agent's scores there, with intervals."""
    from ..evaluation.metrics import Means

    rows = []
    for family in sorted({row.family for m in measured for row in m.first.rows}):
        line: dict[str, Any] = {"family": family}
        for m in measured:
            part = [row for row in m.first.rows if row.family == family]
            line.setdefault("questions", len(part))
            line[m.first.agent] = format(Means(part, seed=m.first.seed)[metric], ".2f")
        rows.append(line)
    return rows


def records(measured: Sequence[AgentResults], env: str) -> list[dict[str, Any]]:
    """The same as JSON values, one record an agent."""
    return [_record(m, env) for m in measured]


def _record(m: AgentResults, env: str) -> dict[str, Any]:
    from ..evaluation.display import unreadable
    from ..evaluation.frontier import within

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
        out["knowledge_boundary"] = {k: v for k, v in row.items() if k != "agent"}
    if _has_judge(first):
        out["judge"] = {**first.settings["judge"], **_judged(first)}
    return out


# --- rows of the tables -----------------------------------------------------------------------
def _scores(m: AgentResults) -> dict[str, Any]:
    first = m.first
    shown: dict[str, Any] = {"agent": first.agent}
    if first.infra_errors:
        shown["measured"] = len(first.rows) - first.infra_errors
    own = ("em", "f1") if first.metric == "f1" else (first.metric,)
    for metric in (*own, *(("judge",) if _has_judge(first) else ())):
        shown[label(metric)] = format(first.means[metric], ".2f")
    shown["recall"] = format(first.means["evidence_recall"].mean, ".2f")
    if not first.means["evidence_recall"].n:
        shown["recall"] = "–"
    shown["searches"] = format(first.means["searches"].mean, ".2f")
    if m.opened and "em" in own:
        book = first.closed_book.get("em")
        shown["closed-book EM"] = "–" if book is None else format(book.mean, ".2f")
    return shown


def _took(measured: Sequence[AgentResults]) -> list[dict[str, Any]]:
    """Searches, tokens, …; pages and dollars only where there were any."""
    names = ["searches", "accesses", "turns", "tokens_in", "tokens_out", "cost", "invalid_rate",
             "truncated", "overflowed", "length_cut"]  # fmt: skip
    rare = ("accesses", "cost", "overflowed", "length_cut")
    used = [
        name
        for name in names
        if name not in rare or any(m.first.means[name].mean > 0 for m in measured)
    ]
    places = {"tokens_in": 0, "tokens_out": 0, "cost": 5}
    return [
        {
            "agent": m.first.agent,
            **{
                name.replace("_", " "): ("$" if name == "cost" else "")
                + format(m.first.means[name], f".{places.get(name, 2)}f")
                for name in used
            },
        }
        for m in measured
    ]


def _samples(m: AgentResults) -> dict[str, Interval]:
    """pass@1, 2, 4, … up to the number of samples, and Avg@k over all of them."""
    from ..evaluation.samples import avg_at, pass_at

    k = len(m.shown)
    ks = sorted({k, *(2**i for i in range(k.bit_length()) if 2**i <= k)})
    chances = {f"pass@{n}": v for n, v in pass_at(m.rows, ks).items()}
    return {**chances, f"avg@{k} em": avg_at(m.rows, k), f"avg@{k} f1": avg_at(m.rows, k, "f1")}


def _sampled(m: AgentResults) -> dict[str, Any]:
    return {"agent": m.first.agent, **{k: format(v, ".2f") for k, v in _samples(m).items()}}


def _refusals(result: EvalResult) -> dict[str, Any]:
    from ..evaluation.decisions import abstention

    abstained = abstention(result.rows)
    shown = {
        "F1": abstained.refusals.f1(),
        "precision": abstained.refusals.precision,
        "recall": abstained.refusals.recall,
        "wrongly refused": abstained.refusals.false_alarm_rate,
        "EM if answered": abstained.answered,
    }
    cells = {name: format(interval, ".2f") for name, interval in shown.items()}
    return {"agent": result.agent, **cells, "invented": abstained.invented}


def _boundary(m: AgentResults) -> list[dict[str, Any]]:
    """A row, if the agent was asked both ways and knows anything."""
    from ..evaluation.closed_book import boundary

    confusion = boundary(m.rows, m.closed_rows) if m.opened and m.closed else None
    if confusion is None:
        return []
    return [
        {
            "agent": m.first.agent,
            "F1": format(confusion.f1(), ".3f"),
            "known, not searched": confusion.hits,
            "known, searched": confusion.missed,
            "unknown, not searched": confusion.false_alarms,
            "unknown, searched": confusion.rejected,
        }
    ]


def _has_judge(result: EvalResult) -> bool:
    return bool(result.settings.get("judge"))


def _judged(result: EvalResult) -> dict[str, Any]:
    from ..evaluation.judge import agreement

    agreed = agreement(result.rows)
    return {
        "agent": result.agent,
        "answers": agreed.verdicts.n + agreed.unjudged,
        "same as exact match": agreed.share,
        "right for the judge only": agreed.verdicts.false_alarms,
        "right by exact match only": agreed.verdicts.missed,
        "not judged": agreed.unjudged,
    }


def lost(result: EvalResult) -> list[dict[str, Any]]:
    """Return what the infrastructure cost, by number of searches; empty if it cost nothing."""
    from ..evaluation.outages import lost_by_searches

    if not result.infra_errors:
        return []
    retries = int(result.settings["rules"]["max_retries"])
    return [
        {"agent": result.agent, **line._asdict()} for line in lost_by_searches(result.rows, retries)
    ]


def _frontier(measured: Sequence[AgentResults]) -> list[Any]:
    from ..evaluation.frontier import frontier, point

    return frontier([point(m.first.agent, m.first.rows, m.first.metric) for m in measured])


def _unasked(measured: Sequence[AgentResults]) -> str | None:
    names = [m.first.agent for m in measured if m.opened and not m.closed]
    if not names or not measured[0].first.settings["rules"]["tools"]:
        return None
    return (
        f"closed book not asked of {', '.join(names)}: asking twice may cost money or was not "
        "wanted; --closed-book both asks"
    )
