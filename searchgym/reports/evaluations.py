"""Reports of evaluations: agents on the same questions, compared in pairs; one set or several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..charts.figure import Figure
from ..charts.palette import CLOSED
from ..errors import DataError, EvaluationError
from ..evaluation.comparison import Comparison, compare, differing
from ..evaluation.differences import holm, power_note
from ..evaluation.intervals import Interval
from ..evaluation.result import EvalResult, caveats
from ..evaluation.table import Column, ResultTable, mark
from ..scoring.metrics import label
from . import scores
from .report import (
    Behind,
    Block,
    Facts,
    Opener,
    Report,
    Section,
    closed_book,
    differing_table,
    episodes_section,
    facts_of,
    flattened,
    forest_figure,
    listed,
    named,
    percent,
    quoted,
    run_facts,
)
from .sources import Run


def evaluation_report(runs: Sequence[Run], opener: Opener | None = None) -> Report:
    """Scores, families, what searches buy, ends, paired differences, episodes, settings; for each
    set, and of several first a table of agents and sets."""
    read = [(r, run, path) for run in runs for r, path in zip(run.results, run.files, strict=True)]
    sets = list(dict.fromkeys(r.set for r, _, _ in read))
    sections: list[Section] = []
    warnings: list[str] = []
    by_set: dict[str, list[EvalResult]] = {}
    for name in sets:
        here = [(r, run, path) for r, run, path in read if r.set == name]
        own = named([r for r, _, _ in here])
        places = {r.agent: _kept(run, path) for r, (_, run, path) in zip(own, here, strict=True)}
        own.sort(key=lambda r: (closed_book(r), -scores.mean_of(r, r.metric)))
        by_set[name] = own
        behind = _behind(own, places)
        episodes: Section | None = None
        try:
            episodes = episodes_section(behind, ("agent", "family"), opener)
        except DataError as error:
            warnings.append(f"no episodes are linked: {error}")
        made, told = _of_set(own, linked=episodes is not None)
        made = [*made[:-1], *([episodes] if episodes else []), made[-1]]
        sections += [_tagged(s, name, i == 0) for i, s in enumerate(made)] if sets[1:] else made
        warnings += told
    if sets[1:]:
        sections.insert(0, _overview(by_set))
    summary = _summary(by_set)
    if note := power_note(min(len(r.rows) for r, _, _ in read)):
        summary.append(f"{note}.")
    sections.append(Section("Machine and folders", "", tuple(run_facts(runs)), link=""))
    counts = " + ".join(f"{len(own[0].rows):,}" for own in by_set.values())
    return Report(
        title=f"Evaluation on {listed(sets)}, {counts} questions", kind="evaluation",
        summary=tuple(summary), sections=tuple(sections),
        warnings=tuple(dict.fromkeys(warnings)), sources=tuple(str(run.path) for run in runs),
    )  # fmt: skip


def _kept(run: Run, path: Path) -> tuple[Path, str]:
    """Place of an agent's episodes and its name there, which is its file's."""
    beside = path.with_name(f"{path.stem}.trajectories.jsonl")
    return (run.path if run.path.is_dir() else beside), path.stem


def _behind(
    results: Sequence[EvalResult], places: Mapping[str, tuple[Path, str]]
) -> list[Behind]:  # fmt: skip
    out = []
    for result in results:
        run, stem = places[result.agent]
        if not run.exists():
            continue
        families = sorted({row.family for row in result.rows})
        for family in ["", *(families if families[1:] else [])]:
            where = {"agent": stem, **({"family": family} if family else {})}
            out.append(Behind((result.agent, family or "all"), run, where))
    return out


def _of_set(results: Sequence[EvalResult], linked: bool) -> tuple[list[Section], list[str]]:
    searching = [r for r in results if not closed_book(r)] or list(results)
    sections = [
        scores.overall(results, linked), scores.families(searching, linked),
        scores.costs(searching), scores.ends(searching),
    ]  # fmt: skip
    compared, warnings = _compared(results, scores.best_of(results, results[0].metric))
    sections += [compared, _settings(results)]
    for r in results:
        if not r.complete:
            warnings.append(f"{r.agent} was interrupted after {len(r.rows):,} questions")
        if r.infra_errors:
            warnings.append(
                f"{r.agent}: {r.infra_errors} of {len(r.rows):,} episodes were lost to the "
                "infrastructure and are left out of the means"
            )
    return [s for s in sections if s], warnings


def _tagged(section: Section, name: str, first: bool) -> Section:
    """The same of one set among several, of which the first leads to all in the page's bar."""
    tag = "".join(c if c.isalnum() else "-" for c in name.lower())
    blocks: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Facts):
            blocks.append(block)
        elif isinstance(block, Figure):
            blocks.append(replace(block, name=f"{tag}_{block.name}"))
        else:
            title = f"{block.title}: {name}"
            blocks.append(replace(block, name=f"{tag}_{block.name}", title=title).within(tag))
    return replace(
        section, title=f"{section.title}: {name}", blocks=tuple(blocks),
        link=name if first else "",
    )  # fmt: skip


def _overview(by_set: Mapping[str, Sequence[EvalResult]]) -> Section:
    agents = list(dict.fromkeys(r.agent for own in by_set.values() for r in own))
    cells = {(name, r.agent): r.means[r.metric] for name, own in by_set.items() for r in own}
    rows = tuple({"agent": a, **{s: _known(cells.get((s, a))) for s in by_set}} for a in agents)
    columns = (Column("agent", "agent"), *(Column(s, s, 2) for s in by_set))
    lost = caveats(r for own in by_set.values() for r in own)
    # the metrics that rank, named once each
    metrics = " or ".join(dict.fromkeys(label(own[0].metric) for own in by_set.values()))
    table = ResultTable("overview", f"{metrics} of every agent on every set", columns, rows,
                        scores.NOTE + lost)  # fmt: skip
    marks = [
        mark(r.means[r.metric], r.metric, y=f"{name} ({len(own[0].rows):,})", by=r.agent)
        for name, own in by_set.items() for r in own if r.means[r.metric].n
    ]  # fmt: skip
    figure = forest_figure(
        "overview", _leaders(by_set), f"{scores.NOTE} Number of questions in brackets.{lost}",
        marks, agents, f"{metrics}, 95 % interval", alt=f"{metrics} by set.",
    )  # fmt: skip
    return Section("Agents and sets", "", (table, figure))


def _known(interval: Interval | None) -> Interval | None:
    return interval if interval is not None and math.isfinite(interval.mean) else None


def _leaders(by_set: Mapping[str, Sequence[EvalResult]]) -> str:
    """Name the best agent of each set, the oracle aside, and from which it is not told apart."""
    told: dict[tuple[str, str], list[str]] = {}
    for name, own in by_set.items():
        metric = own[0].metric
        best = scores.best_of(own, metric)
        second = scores.runner_up(own, best, metric)
        near = ""
        if second is not None and not scores.apart(best, second, metric)[0]:
            near = f", not told apart from {quoted(second.agent)}"
        place = f"{name} ({best.means[metric].mean:z.2f}{near})"
        told.setdefault((best.agent, metric), []).append(place)
    return "; ".join(
        f"{quoted(agent)} has the best {label(metric)} on {listed(places)}"
        for (agent, metric), places in told.items()
    )


def _summary(by_set: Mapping[str, Sequence[EvalResult]]) -> list[str]:
    several = len(by_set) > 1
    out = [f"{_leaders(by_set)}."] if several else []
    for name, results in by_set.items():
        metric = results[0].metric
        best = scores.best_of(results, metric)
        means, asked = best.means, f"{best.means[metric].n:,} questions of {name}"
        told = (
            f"{quoted(best.agent)} answers {percent(means['em'].mean)} of {asked} exactly: F1 "
            f"{means['f1']:.2f}, "
            if metric == "f1"
            else f"{quoted(best.agent)} has {label(metric)} {means[metric]:z.2f} on {asked}, "
        )
        told += f"{means['searches'].mean:z.2f} searches per question."
        others = [r for r in results if r is not best and not closed_book(r)]
        if others:
            told += f" {label(metric)} of the others: {_told(others)}."
        if books := [r for r in results if r is not best and closed_book(r)]:
            told += f" Without tools: {_told(books)}."
        out.append(told + caveats(results))
    return out


def _told(results: Sequence[EvalResult]) -> str:
    by: dict[str, list[str]] = {}
    for r in results:
        mean = f"{r.means[r.metric].mean:z.2f}" if r.means[r.metric].n else "not known"
        by.setdefault(mean, []).append(quoted(r.agent.removesuffix(CLOSED)))
    return "; ".join(f"{listed(names)} {mean}" for mean, names in by.items())


def _compared(results: Sequence[EvalResult], best: EvalResult) -> tuple[Section | None, list[str]]:
    """Each agent against the best, and against itself without tools, paired over questions, Holm
    over the family of tests."""
    comparisons: list[Comparison] = []
    refused = []
    by_name = {r.agent: r for r in results}
    pairs: list[tuple[EvalResult, EvalResult, tuple[str, ...]]]
    pairs = [(best, r, ()) for r in results if r is not best and not closed_book(r)]
    pairs += [
        (opened, r, ("search_enabled",)) for r in results
        if closed_book(r) and (opened := by_name.get(r.agent.removesuffix(CLOSED)))
    ]  # fmt: skip
    for one, other, despite in pairs:
        try:
            comparisons.append(compare(one, other, best.metric, despite=despite))
        except EvaluationError as error:
            refused.append(str(error))
    if not comparisons:
        return None, refused
    rows = [
        {"a": c.a, "b": c.b, "mean_a": c.mean_a, "mean_b": c.mean_b,
         "difference": _known(c.difference), "p": c.p, "p_holm": p,
         "questions": c.difference.n}
        for c, p in zip(comparisons, holm([c.p for c in comparisons]), strict=True)
    ]  # fmt: skip
    name = label(best.metric)
    columns = (
        Column("a", "agent"), Column("b", "against"), Column("mean_a", name),
        Column("mean_b", f"{name} against"), Column("difference", "difference", signed=True),
        Column("p", "p", 4), Column("p_holm", "p (Holm)", 4), Column("questions", "questions"),
    )  # fmt: skip
    table = ResultTable(
        "paired", f"Differences in {name}, paired on the same questions", columns, tuple(rows),
        "95 % intervals (BCa; where few pairs differ, Tango's score interval); p of no difference "
        "by sign flips, adjusted by Holm over these rows.",
    )  # fmt: skip
    return Section("Agents compared", "", (table,)), refused


def _settings(results: Sequence[EvalResult]) -> Section:
    first = results[0]
    odd = dict.fromkeys(n for r in results[1:] for n in differing(first.settings, r.settings))
    blocks: list[Block] = []
    if odd:
        note = "Scores under different settings are answers to different questions."
        flat = {r.agent: dict(flattened(r.settings)) for r in results}
        blocks.append(differing_table(odd, flat, note))
    shared = {k: v for k, v in first.settings.items() if k not in ("agent", "versions", "batch")}
    blocks.append(facts_of(f"Environment of {first.agent}" if odd else "Environment", shared))
    blocks.append(facts_of("Agents", {r.agent: r.settings.get("agent", {}) for r in results}))
    if used := {r.agent: r.usage for r in results if r.usage}:
        blocks.append(facts_of("Used by the agents", used))
    versions = [r.settings.get("versions", {}) for r in results]
    blocks.append(facts_of("Versions", *versions))
    blocks.append(Facts("Time taken", tuple((r.agent, f"{r.duration_s:,.1f} s") for r in results)))
    return Section("Settings", "", tuple(blocks))
