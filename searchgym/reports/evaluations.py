"""Reports of evaluations: agents on the same questions, compared in pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import EvaluationError
from ..evaluation.comparable import differing
from ..evaluation.frontier import frontier, point, within
from ..evaluation.intervals import Interval, holm, mean_interval
from ..evaluation.metrics import METRICS, column
from ..evaluation.power import power_note
from ..evaluation.result import Comparison, EvalResult, compare
from .charts import cost_and_score, forest, shares, steps
from .figure import Figure
from .report import (
    Block,
    Column,
    Facts,
    Quantity,
    Report,
    Section,
    Table,
    facts_of,
    flattened,
)
from .sources import Run

LABELS: Mapping[str, str] = {
    "em": "EM", "f1": "F1", "cover_em": "cover-EM", "evidence_recall": "evidence recall",
    "evidence_precision": "evidence precision", "evidence_mrr": "evidence MRR",
    "evidence_ndcg": "evidence nDCG", "invalid_rate": "share of invalid turns",
}  # fmt: skip
SHOWN = ("em", "f1", "evidence_recall", "searches")
ENDS = ("answered", "unanswered", "max_turns", "max_chars", "max_tokens", "infra_error")
END_NAMES: Mapping[str, str] = {
    "unanswered": "ended without an answer", "max_turns": "out of turns",
    "max_chars": "out of characters", "max_tokens": "out of tokens",
    "infra_error": "lost to infrastructure",
}  # fmt: skip
CLOSED = ", closed book"
SMALL = 12
"""Families of fewer questions are told, not drawn."""
NOTE = "Mean [95 % interval], bootstrap over questions (BCa)."


def label(metric: str) -> str:
    """Return the label of a metric in tables and figures."""
    return LABELS.get(metric, metric.replace("_", " "))


def evaluation_report(runs: Sequence[Run]) -> Report:
    """Scores, families, what searches buy, ends, paired differences, settings; for each set."""
    results = [r for run in runs for r in run.results]
    sets = list(dict.fromkeys(r.set for r in results))
    sections: list[Section] = []
    warnings: list[str] = []
    summary: list[str] = []
    for name in sets:
        own = named([r for r in results if r.set == name])
        own.sort(key=lambda r: -_mean(r, "f1"))
        made, told = _of_set(own)
        sections += [_tagged(section, name) for section in made] if len(sets) > 1 else made
        warnings += told
        summary.append(_summary(own))
    if note := power_note(min(len(r.rows) for r in results)):
        summary.append(f"{note}.")
    machines = [facts_of("Machine", run.machine) for run in runs if run.machine]
    folders = Facts("Folders", tuple((run.name, str(run.path)) for run in runs))
    sections.append(Section("Machine and folders", "", (*machines, folders)))
    return Report(
        title=f"Evaluation: {', '.join(sets)}", kind="evaluation", summary=tuple(summary),
        sections=tuple(sections), warnings=tuple(warnings),
        sources=tuple(str(run.path) for run in runs),
    )  # fmt: skip


def _of_set(results: Sequence[EvalResult]) -> tuple[list[Section], list[str]]:
    """Sections about results on one set, best first; and warnings."""
    searching = [r for r in results if not _closed(r)] or list(results)
    found = [_scores(results), _families(searching), _costs(searching), _ends(searching)]
    compared, warnings = _compared(results, _best(results))
    found += [compared, _settings(results)]
    for r in results:
        if not r.complete:
            warnings.append(f"{r.agent} was interrupted after {len(r.rows):,} questions")
        if r.infra_errors:
            warnings.append(
                f"{r.agent}: {r.infra_errors} of {len(r.rows):,} episodes were lost to the "
                "infrastructure and are left out of the means"
            )
    return [section for section in found if section], warnings


def _tagged(section: Section, name: str) -> Section:
    """The same of one set among several."""
    tag = "".join(c if c.isalnum() else "-" for c in name.lower())
    blocks = tuple(
        b if isinstance(b, Facts) else replace(b, name=f"{tag}_{b.name}") for b in section.blocks
    )
    return replace(section, title=f"{section.title}: {name}", blocks=blocks)


def named(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Results with names that tell them apart: of equal ones the set is added, then a number."""
    own = [f"{r.agent}{CLOSED if _closed(r) else ''}" for r in results]
    for names in (
        own,
        [f"{name} ({r.set})" for name, r in zip(own, results, strict=True)],
        [f"{name} #{i}" for i, name in enumerate(own, 1)],
    ):
        if len(set(names)) == len(names):
            return [replace(r, agent=n) for r, n in zip(results, names, strict=True)]
    raise AssertionError("numbers differ")  # pragma: no cover


def _closed(result: EvalResult) -> bool:
    """Played without any tool."""
    return not result.settings.get("search_enabled", True)


def _best(results: Sequence[EvalResult], metric: str = "f1") -> EvalResult:
    """The best agent; an oracle only if there is no other agent."""
    searching = [r for r in results if not _closed(r)] or results
    agents = [r for r in searching if not r.agent.startswith("oracle")] or searching
    return max(agents, key=lambda r: _mean(r, metric))


def _mean(result: EvalResult, metric: str) -> float:
    value = result.means[metric].mean
    return value if value == value else -1.0


def _summary(results: Sequence[EvalResult]) -> str:
    best = _best(results)
    means = best.means
    told = (
        f"{best.agent} answers {means['em'].mean:.0%} of {len(best.rows):,} questions of "
        f"{best.set} exactly (F1 {means['f1']}), with {means['searches'].mean:.2f} searches "
        "per question"
    )
    if others := [r for r in results if r is not best]:
        rest = ", ".join(f"{r.agent} {_mean(r, 'f1'):.3f}" for r in others[:4])
        told += f"; F1 of others: {rest}"
    return told + "."


def _scores(results: Sequence[EvalResult]) -> Section:
    names = [r.agent for r in results]
    shown = [m for m in SHOWN if any(r.means[m].n for r in results)]
    rows = [
        {"y": r.agent, "by": r.agent, "facet": label(m), **_numbers(r.means[m])}
        for m in shown for r in results if r.means[m].n
    ]  # fmt: skip
    drawn = forest(
        rows, by=names, x_title="mean, 95 % interval", domain=None, columns=2, width=320,
        own_rows=True,
    )  # fmt: skip
    alt = "Scores of each agent. " + "; ".join(
        f"{r.agent}: " + ", ".join(f"{label(m)} {r.means[m].mean:.2f}" for m in shown
                                   if r.means[m].n) for r in results
    )  # fmt: skip
    figure = Figure("scores", "Scores", NOTE, alt + ".", drawn, tuple(rows))
    kept = [m for m in METRICS if any(r.means[m].n for r in results)]
    note = NOTE + " EM: the normalised answer equals an accepted one; cover-EM: contains one."
    columns = [Column("measure", "measure"), *(Column(n, n) for n in names)]
    table = Table(
        "means", "All measures", tuple(columns),
        tuple({"measure": label(m), **{r.agent: Quantity.of(r.means[m]) for r in results}}
              for m in kept), note,
    )  # fmt: skip
    return Section("Scores", "", (figure, table))


def _numbers(found: Interval) -> dict[str, Any]:
    return {"mean": round(found.mean, 5), "low": round(found.low, 5),
            "high": round(found.high, 5), "questions": found.n}  # fmt: skip


def _families(results: Sequence[EvalResult], metric: str = "em") -> Section | None:
    counts = Counter(row.family for row in results[0].rows)
    big = [f for f in sorted(counts) if counts[f] >= SMALL]
    if len(counts) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for result in results:
        values = column(result.rows, metric)
        names = np.array([row.family for row in result.rows])
        for family in sorted(counts):
            found = mean_interval(values[names == family], seed=result.seed, unit=METRICS[metric])
            if found.n:
                rows.append({"y": f"{family} ({counts[family]})", "by": result.agent,
                             "family": family, **_numbers(found)})  # fmt: skip
    drawn_rows = sorted((r for r in rows if r["family"] in big), key=lambda r: str(r["family"]))
    columns = [Column("family", "family"), Column("questions", "questions")]
    columns += [Column(r.agent, r.agent, 2) for r in results]
    cells = {(r["family"], r["by"]): Quantity.of(r) for r in rows}
    table = Table(
        "families", f"{label(metric)} by family", tuple(columns),
        tuple({"family": f, "questions": counts[f],
               **{r.agent: cells.get((f, r.agent)) for r in results}} for f in sorted(counts)),
        NOTE,
    )  # fmt: skip
    if not drawn_rows:
        return Section("By family", "", (table,))
    few = ", ".join(f for f in sorted(counts) if f not in big)
    caption = NOTE + (f" Families of fewer than {SMALL} questions are in the table only: {few}."
                      if few else "")  # fmt: skip
    best = _best(results, metric)
    alt = f"{label(metric)} by family of question. {best.agent}: " + ", ".join(
        f"{r['family']} {r['mean']:.2f}" for r in drawn_rows if r["by"] == best.agent
    )
    drawn = forest(
        drawn_rows, by=[r.agent for r in results], x_title=f"{label(metric)}, 95 % interval"
    )
    figure = Figure("families", f"{label(metric)} by family", caption, alt + ".", drawn,
                    tuple(drawn_rows))  # fmt: skip
    return Section("By family", "", (figure, table))


def _costs(results: Sequence[EvalResult]) -> Section:
    points = {r.agent: point(r.agent, r.rows) for r in results}
    rows = [
        {"agent": r.agent, "cost": round(points[r.agent].cost, 4),
         "score": round(points[r.agent].score, 5), "low": round(r.means["f1"].low, 5),
         "high": round(r.means["f1"].high, 5)}
        for r in results if r.means["f1"].n
    ]  # fmt: skip
    kept = frontier([p for p in points.values() if p.score == p.score])
    line = [{"cost": round(p.cost, 4), "score": round(p.score, 5)} for p in kept]
    figure = Figure(
        "frontier", "F1 against searches",
        "Dashed: agents that no other beats in both. Vertical lines: 95 % intervals of F1.",
        "F1 against searches per question. " + "; ".join(
            f"{r['agent']}: {r['cost']:.2f} searches, F1 {r['score']:.2f}" for r in rows
        ) + f". On the frontier: {', '.join(p.name for p in kept)}.",
        cost_and_score(rows, line, "searches per question", "F1"), tuple(rows),
    )  # fmt: skip
    most = int(min(12, max(row.searches for r in results for row in r.rows)))
    blocks = [figure]
    if most > 0:
        bought = [
            {"x": budget, "series": r.agent, "mean": round(i.mean, 5), "low": round(i.low, 5),
             "high": round(i.high, 5)}
            for r in results
            for budget, i in within(r.rows, range(most + 1), "em", seed=r.seed).items() if i.n
        ]  # fmt: skip
        alt = "Share answered exactly within so many searches. " + "; ".join(
            f"{r.agent}: " + ", ".join(f"{b['mean']:.2f} within {b['x']}" for b in bought
                                       if b["series"] == r.agent) for r in results
        )  # fmt: skip
        blocks.append(Figure(
            "budget", "What each search buys",
            "Share of questions answered exactly with at most so many searches; bands: 95 % "
            "intervals. A lower bound of what the agent would do if it were told of the budget.",
            alt + ".", steps(bought, [r.agent for r in results], "searches allowed",
                             "EM within the budget"), tuple(bought),
        ))  # fmt: skip
    return Section("Cost", "", tuple(blocks))


def _ends(results: Sequence[EvalResult]) -> Section:
    rows = []
    seen = Counter(row.end for r in results for row in r.rows)
    parts = [e for e in (*ENDS, *sorted(set(seen) - set(ENDS))) if seen[e]]
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
    figure = Figure(
        "ends", "How episodes ended", "Share of all episodes.", alt + ".",
        shares(rows, [r.agent for r in results], [END_NAMES.get(e, e) for e in parts],
               "share of episodes"), tuple(rows),
    )  # fmt: skip
    return Section("How episodes ended", "", (figure,))


def _compared(results: Sequence[EvalResult], best: EvalResult) -> tuple[Section | None, list[str]]:
    """Each agent against the best, and against itself without tools, paired over questions, Holm
    over the family of tests."""
    found: list[Comparison] = []
    refused = []
    by_name = {r.agent: r for r in results}
    pairs: list[tuple[EvalResult, EvalResult, tuple[str, ...]]]
    pairs = [(best, r, ()) for r in results if r is not best and not _closed(r)]
    pairs += [
        (opened, r, ("search_enabled",)) for r in results
        if _closed(r) and (opened := by_name.get(r.agent.replace(CLOSED, "", 1)))
    ]  # fmt: skip
    for one, other, despite in pairs:
        try:
            found.append(compare(one, other, "f1", despite=despite))
        except EvaluationError as error:
            refused.append(str(error))
    if not found:
        return None, refused
    rows = [
        {"a": c.a, "b": c.b, "mean_a": c.mean_a, "mean_b": c.mean_b,
         "difference": Quantity.of(c.difference), "p": c.p, "p_holm": p,
         "questions": c.difference.n}
        for c, p in zip(found, holm([c.p for c in found]), strict=True)
    ]  # fmt: skip
    columns = (
        Column("a", "agent"), Column("b", "against"), Column("mean_a", "F1"),
        Column("mean_b", "against's F1"), Column("difference", "difference", signed=True),
        Column("p", "p", 4), Column("p_holm", "p (Holm)", 4), Column("questions", "questions"),
    )  # fmt: skip
    table = Table(
        "paired", "Differences in F1, question by question", columns, tuple(rows),
        "95 % intervals by bootstrap over questions; p of no difference by random sign flips, "
        "adjusted by Holm over the rows.",
    )  # fmt: skip
    return Section("Agents compared", "", (table,)), refused


def _settings(results: Sequence[EvalResult]) -> Section:
    first = results[0]
    odd = dict.fromkeys(n for r in results[1:] for n in differing(first.settings, r.settings))
    blocks: list[Block] = []
    if odd:
        flat = {r.agent: dict(flattened(r.settings)) for r in results}
        columns = [Column("setting", "setting"), *(Column(name, name) for name in flat)]
        rows = tuple({"setting": n, **{a: f.get(n, "–") for a, f in flat.items()}} for n in odd)
        note = "Scores under different settings are answers to different questions."
        blocks.append(Table("differing", "Settings that differ", tuple(columns), rows, note))
    shared = {k: v for k, v in first.settings.items() if k not in ("agent", "versions", "batch")}
    blocks.append(facts_of(f"Environment of {first.agent}" if odd else "Environment", shared))
    blocks.append(facts_of("Agents", {r.agent: r.settings.get("agent", {}) for r in results}))
    if used := {r.agent: r.usage for r in results if r.usage}:
        blocks.append(facts_of("Used by the agents", used))
    versions = [r.settings.get("versions", {}) for r in results]
    blocks.append(facts_of("Versions and system", *versions))
    blocks.append(Facts("Time taken", tuple((r.agent, f"{r.duration_s:,.1f} s") for r in results)))
    return Section("Settings", "", tuple(blocks))
