"""Reports of training runs: language models, warm starts, candidate agents; one or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..charts.figure import Figure
from ..charts.panels import multiples
from ..errors import DataError
from ..evaluation.intervals import FEWEST_SEEDS, Interval, over_seeds
from ..evaluation.table import LINKS, Column, ResultTable, Seeds
from ..rl.collapse import meaning
from ..scoring import metrics
from ..scoring.metrics import CURVE, EXAMPLES, HEALTH, PLAY, RARE, is_rate
from .curves import centred, changing, ends, mean_curve, span_of, thinned
from .report import (
    Behind,
    Block,
    Opener,
    Report,
    Section,
    differing_table,
    episodes_section,
    facts_of,
    flattened,
    listed,
    quoted,
    run_facts,
)
from .sources import CANDIDATE, RL, Curve, Run, RunGroup, grouped, same_settings

POINTS_OF_AN_END = 10
"""Logged points of training whose mean is its start, or its end; evaluations are taken singly."""


class Chart(NamedTuple):
    """A chart of a section: the measures that it shows."""

    name: str
    title: str
    intro: str
    measures: tuple[str, ...]
    noisy: bool = True
    """True for measures of few training episodes, of which neighbouring steps are averaged; False
    for values that were set and for evaluations, which are shown as they are."""


def training_report(runs: Sequence[Run], opener: Opener | None = None) -> Report:
    """Curves, reward parts, curricula, coefficients, warnings, settings and machine."""
    kind = runs[0].kind
    groups = grouped(runs)
    x = "episodes" if kind == CANDIDATE else "step"
    marks = [{"x": step, "name": name} for name, step, _ in _warned(groups)]
    sections = [
        Section(chart.title, chart.intro, (_figure(chart, groups, x, marks, kind),))
        for chart in _charts(kind, groups) if chart.measures
    ]  # fmt: skip
    episodes, missing = None, []
    try:
        episodes = episodes_section(_behind(kind, runs), ("run", "step"), opener)
    except DataError as error:
        missing = [f"no episodes are linked: {error}"]
    numbers = _table(kind, groups, bool(episodes)) if _longest(groups) > 1 else None
    sections[1:1] = [s for s in (numbers, _warnings(groups)) if s is not None]
    sections += [*([episodes] if episodes else []), _settings(runs, groups)]
    return Report(
        title=_title(kind, groups), kind=kind, summary=tuple(_summary(kind, groups)),
        sections=tuple(sections), sources=tuple(str(run.path) for run in runs),
        warnings=(*(
            f"{name} (step {step:g}{', ' + where if where else ''}): {meaning(name)}"
            for name, step, where in _warned(groups)
        ), *missing),
        alarm=learnt_nothing(kind, groups),
    )  # fmt: skip


def learnt_nothing(kind: str, groups: Sequence[RunGroup]) -> str:
    """Explain why a training learnt nothing, as a sentence; "" where it may have learnt."""
    curves = [curve for group in groups for curve in group.curves]
    if kind == RL:
        told = "no_signal" in {name for name, _, _ in _warned(groups)}
        flat = all(row.get("grad_norm") == 0 for curve in curves for row in curve.rows)
        if flat or (told and all(
            row.get("frac_reward_zero_std") == 1 for curve in curves for row in curve.rows
        )):  # fmt: skip
            return (
                "No group of episodes had two different rewards, so every gradient was 0. Easier "
                "tasks, a warm start, a graded reward (f1), larger groups or a higher temperature "
                "give a signal."
            )
    if kind == CANDIDATE and curves:
        played = [max((float(row["episodes"]) for row in c.rows), default=0.0) for c in curves]
        if not any(played):
            return "No training episode was played before the time was over. Give it more."
    return ""


def _behind(kind: str, runs: Sequence[Run]) -> list[Behind]:
    out = []
    for run in runs if kind == RL else ():
        path: Path = run.path / "rollouts.jsonl"
        if path.is_file():
            steps = [int(row["step"]) for curve in run.curves for row in curve.rows]
            for name, step in (("first", min(steps)), ("last", max(steps))):
                out.append(Behind((run.name, f"{name} ({step})"), path, {"step": str(step)}))
    return out


def learning_figure(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw how candidate agents learned, by name: what a notebook shows of ``Learned.curve``."""
    groups = [RunGroup(name, (Curve(0, tuple(rows)),), {}) for name, rows in curves.items()]
    return _figure(_charts(CANDIDATE, groups)[0], groups, "episodes", (), CANDIDATE)


def _charts(kind: str, groups: Sequence[RunGroup]) -> list[Chart]:
    rows = [row for group in groups for curve in group.curves for row in curve.rows]

    def there(*names: str) -> tuple[str, ...]:
        return tuple(n for n in names if any(row.get(n) is not None for row in rows))

    first = "Learning curves"
    if kind == CANDIDATE:
        about = "Greedy play on the development world, by training episodes."
        measures = there(*CURVE)
        return [Chart("learning", first, about, measures, noisy=False)]
    if kind != RL:
        about = "Means over the steps between two lines of the log."
        return [Chart("learning", first, about, there(*EXAMPLES))]
    parts = tuple(changing(rows, "rewards/"))
    rare = tuple(name for name in RARE if any(row.get(name) for row in rows))
    difficulty = tuple(changing(rows, "difficulty/"))
    coefficients = tuple(changing(rows, "coef/"))
    return [
        Chart("learning", first, "What the policy earns and how it plays, per episode.",
              there(*PLAY)),
        Chart("reward_parts", "Reward parts", "What each part gave per episode, before weights. "
              "A reward that rises by other parts than the answer's is worth a look.", parts),
        Chart("curriculum", "Curriculum", "Each axis of difficulty, mean over the step's tasks.",
              difficulty, noisy=False),
        Chart("health", "How it learns", "Where collapses show first.",
              there(*HEALTH, *rare)),
        Chart("coefficients", "Schedules", "Coefficients by step.", coefficients, noisy=False),
        Chart("time", "Time", "Wall clock of each step, on the machine below.",
              there("rollout_s", "update_s")),
    ]  # fmt: skip


def label(measure: str, kind: str = RL) -> str:
    """Return the label of a metric in figures and tables."""
    table = {RL: metrics.RL, CANDIDATE: metrics.CANDIDATE}.get(kind, metrics.SFT)
    return metrics.label(measure, table)


def _figure(
    chart: Chart, groups: Sequence[RunGroup], x: str, marks: Sequence[Mapping[str, Any]], kind: str
) -> Figure:
    rows: list[dict[str, Any]] = []
    told: list[str] = []
    span, size = 1, 1
    drawn, flat = _moving(chart, groups)
    for measure in drawn:
        name = label(measure, kind)
        for group in groups:
            lines = []
            for curve in group.curves:
                xs = [float(row[x]) for row in curve.rows]
                line = thinned(xs, values_of(curve, measure))
                rows += [
                    {"measure": name, "series": group.name, "x": at, "value": _round(value),
                     "seed": curve.seed}
                    for at, value in line
                ]  # fmt: skip
                own = span_of(len(line)) if chart.noisy else 1
                span, size = max(span, own), max(size, -(-len(xs) // max(1, len(line))))
                smooth = centred([v for _, v in line], own)
                lines.append([(at, v) for (at, _), v in zip(line, smooth, strict=True)])
            points = mean_curve(lines)
            rows += [_mean_row(name, group.name, *p, is_rate(measure)) for p in points]
            if points:
                told.append(
                    f"{name}{f' of {group.name}' if len(groups) > 1 else ''} from "
                    f"{points[0][1].mean:.3g} to {points[-1][1].mean:.3g}"
                )
    names = [label(m, kind) for m in drawn]
    draw = partial(
        multiples, rows, "training episodes" if x == "episodes" else "step",
        [g.name for g in groups], names, marks=marks,
        rates=[label(m, kind) for m in drawn if is_rate(m)],
    )  # fmt: skip
    same = f" The same throughout: {listed(flat)}." if flat else ""
    seeds = max(len(group.curves) for group in groups)
    return Figure(
        chart.name, _finding(chart, groups, kind, x),
        _reading(seeds, span * size if span > 1 else 1, bool(marks)) + same,
        f"{chart.title}{', smoothed' if span > 1 else ''}: {'; '.join(told)}.", draw, tuple(rows),
    )  # fmt: skip


def _moving(chart: Chart, groups: Sequence[RunGroup]) -> tuple[list[str], list[str]]:
    """Measures that change, and those that do not, with their value; if none changes, the first
    counts as one that does, so that something is drawn."""
    drawn, flat = [], []
    for measure in chart.measures:
        seen = {v for g in groups for c in g.curves for v in values_of(c, measure)
                if v is not None and v == v}  # fmt: skip
        if len(seen) == 1 and _longest(groups) > 1:
            flat.append((measure, next(iter(seen))))
        else:
            drawn.append(measure)
    if not drawn:
        drawn = [flat.pop(0)[0]]
    return drawn, [f"{label(m)} {v:.4g}" for m, v in flat]


def _reading(seeds: int, span: int, marked: bool) -> str:
    over = "the mean over seeds" if seeds > 1 else ""
    if span > 1:
        thin = "each seed as logged" if seeds > 1 else "as logged"
        mean = f"the mean over {span} neighbouring steps (fewer at the ends)"
        caption = f"Thin: {thin}; thick: {mean}{' and over seeds' if over else ''}"
    else:
        caption = f"Thin: each seed; thick: {over}" if over else "As logged, without smoothing"
    if seeds >= FEWEST_SEEDS:
        caption += ", with 95 % interval (Student's t)"
    return caption + ("; dashed vertical lines: warnings." if marked else ".")


def _finding(chart: Chart, groups: Sequence[RunGroup], kind: str, x: str) -> str:
    if chart.name == "time":
        return "Time of each step"
    if not chart.noisy and kind == RL:
        return f"{chart.title} as set"
    if chart.name == "health":
        count = len({name for name, _, _ in _warned(groups)})
        return f"{count} warning{'s' * (count != 1)} of a collapse" if count else (
            "No sign of a collapse"
        )  # fmt: skip
    out = []
    for group in groups:
        moved = [(m, *_ends(group, m, kind == CANDIDATE)) for m in _moving(chart, groups)[0]]
        known = [(m, a, b) for m, a, b in moved if a and b]
        if not known:
            continue
        shown = known[:1]
        if chart.name == "reward_parts":
            shown = [k for k in known if _moves(*k[1:])]
        parts = [] if shown else ["no reward part moves"]
        for measure, start, last in shown:
            assert start is not None
            assert last is not None
            name = label(measure, kind)
            form = ".2f" if is_rate(measure) else ".3g"
            first, end = format(start.mean, form), format(last.mean, form)
            if _longest([group]) < 2:
                parts.append(f"{name} is {end}")
            elif not _moves(start, last):
                parts.append(f"{name} stays at {end}")
            else:
                verb = "rises" if last.mean > start.mean else "falls"
                parts.append(f"{name} {verb} from {first} to {end}")
        who = f"{quoted(group.name)}: " if len(groups) > 1 else ""
        out.append(who + listed(parts))
    told = "; ".join(out)
    last_x = max(float(c.rows[-1][x]) for g in groups for c in g.curves if c.rows)
    unit = "training episodes" if x == "episodes" else "steps"
    within = f" within {last_x + (x != 'episodes' and kind == RL):,.0f} {unit}"
    return (
        told[:1].upper() + told[1:] + (within if _longest(groups) > 1 and len(groups) == 1 else "")
    )


def _moves(start: Interval | Seeds, last: Interval | Seeds) -> bool:
    return abs(last.mean - start.mean) >= 0.005 * max(1.0, abs(start.mean))


def values_of(curve: Curve, measure: str) -> list[float | None]:
    """A measure by row; a reward part that is not there was not given, which is 0."""
    missing = 0.0 if measure.startswith("rewards/") else None
    return [row.get(measure, missing) for row in curve.rows]


def _mean_row(measure: str, series: str, x: float, point: Interval, unit: bool) -> dict[str, Any]:
    """A point of a curve; of too few seeds without an interval."""
    point = point.within(0.0, 1.0) if unit else point
    few = point.n < FEWEST_SEEDS
    return {
        "measure": measure, "series": series, "x": x, "mean": _round(point.mean),
        "low": None if few else _round(point.low), "high": None if few else _round(point.high),
        "seeds": point.n,
    }  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _ends(
    group: RunGroup, measure: str, evaluated: bool
) -> tuple[Interval | Seeds | None, Interval | Seeds | None]:
    count = 1 if evaluated else POINTS_OF_AN_END
    pairs = [ends([row.get(measure) for row in curve.rows], count) for curve in group.curves]
    out: list[Interval | Seeds | None] = []
    for place in (0, 1):
        each = [float(v) for pair in pairs if (v := pair[place]) is not None]
        few = 1 < len(each) < FEWEST_SEEDS
        out.append(Seeds(tuple(each)) if few else over_seeds(each) if each else None)
    return out[0], out[1]


def _longest(groups: Sequence[RunGroup]) -> int:
    """Logged points of the longest run: of one point there is no beginning and end."""
    return max((len(curve.rows) for group in groups for curve in group.curves), default=0)


def _table(kind: str, groups: Sequence[RunGroup], linked: bool = False) -> Section:
    shown = {
        RL: (*PLAY, "invalid", "truncated", "overflowed", "length_cut", "entropy"),
        CANDIDATE: CURVE,
    }.get(kind, ("loss", "mean_token_accuracy"))  # fmt: skip
    several = len(groups) > 1
    rows = []
    for group in groups:
        for measure in shown:
            first, last = _ends(group, measure, kind == CANDIDATE)
            if first is None or last is None:
                continue
            alone = len(group.curves) == 1
            rows.append({
                "run": group.name, "measure": label(measure, kind), "seeds": len(group.curves),
                "first": first.mean if alone else first, "last": last.mean if alone else last,
                "change": last.mean - first.mean,
                **({LINKS: dict.fromkeys(("first", "last"), "#episodes")} if linked else {}),
            })  # fmt: skip
    columns = [
        Column("run", "run"), Column("measure", "measure"), Column("first", "start"),
        Column("last", "end"), Column("change", "change", signed=True),
        Column("seeds", "seeds"),
    ]  # fmt: skip
    note = (
        "The first evaluation and the last. "
        if kind == CANDIDATE
        else f"Means of the first and last {POINTS_OF_AN_END} logged points, or of halves where "
        "there are fewer. "
    ) + (
        "Intervals: 95 %, over seeds (Student's t); of fewer than "
        f"{FEWEST_SEEDS} seeds each is shown."
    )
    table = ResultTable("ends", "Start and end", tuple(columns if several else columns[1:]),
                  tuple(rows), note)  # fmt: skip
    return Section("In numbers", "", (table,))


def _warned(groups: Sequence[RunGroup]) -> list[tuple[str, float, str]]:
    warnings = []
    for group in groups:
        for curve in group.curves:
            where = [group.name] * (len(groups) > 1)
            where += [f"seed {curve.seed}"] * (len(group.curves) > 1)
            for row in curve.rows:
                for name in row.get("warnings", ()):
                    warnings.append((str(name), float(row["step"]), ", ".join(where)))
    return sorted(warnings, key=lambda w: w[1])


def _warnings(groups: Sequence[RunGroup]) -> Section | None:
    rows = [
        {"step": int(step), "warning": name, "where": where, "meaning": meaning(name)}
        for name, step, where in _warned(groups)
    ]
    if not rows:
        return None
    columns = [Column("step", "step"), Column("warning", "warning"), Column("meaning", "meaning")]
    if any(row["where"] for row in rows):
        columns.insert(1, Column("where", "run"))
    table = ResultTable("warnings", "Named warnings", tuple(columns), tuple(rows),
                  "Each is given once a run, at the step at which it was noticed.")  # fmt: skip
    return Section("Warnings", "", (table,))


def _settings(runs: Sequence[Run], groups: Sequence[RunGroup]) -> Section:
    blocks: list[Block] = []
    if len(groups) > 1:
        flat = {g.name: dict(flattened(same_settings(g.about))) for g in groups}
        names = [n for n in dict.fromkeys(n for f in flat.values() for n in f)
                 if len({f.get(n) for f in flat.values()}) > 1]  # fmt: skip
        note = "Everything that was written down and is not the same; seeds and steps aside."
        blocks.append(differing_table(names, flat, note))
    for group in groups:
        if group.about:
            blocks.append(facts_of(f"Settings: {group.name}", same_settings(group.about)))
    versions = [run.machine["versions"] for run in runs if "versions" in run.machine]
    return Section("Settings and machine", "", (*blocks, *run_facts(runs, versions)))


def _title(kind: str, groups: Sequence[RunGroup]) -> str:
    names = ", ".join(dict.fromkeys(group.name for group in groups))
    abouts = [group.about for group in groups]
    if kind == RL and len(groups) == 1 and abouts[0]:
        return f"{names}: {abouts[0]['model']} in {abouts[0]['env']}"
    return f"{kind[0].upper()}{kind[1:]}: {names}"


def _summary(kind: str, groups: Sequence[RunGroup]) -> list[str]:
    out = []
    for group in groups:
        told = {
            RL: ("reward", "em", "searches"), CANDIDATE: ("f1", "searches"),
        }.get(kind, ("loss", "mean_token_accuracy"))  # fmt: skip
        moved = []
        for measure in told:
            first, last = _ends(group, measure, kind == CANDIDATE)
            if first and last:
                to = f" → {last.mean:.3g}" if _longest([group]) > 1 else ""
                moved.append(f"{label(measure, kind)} {first.mean:.3g}{to}")
        out.append(f"{_what(kind, group)}: {', '.join(moved)}.")
    if kind == RL:
        count = len(_warned(groups))
        out.append(f"{count} named warning{'s' * (count > 1)}." if count else "No warnings.")
    return out


def _what(kind: str, group: RunGroup) -> str:
    seeds = len(group.curves)
    over = f", {seeds} seeds" if seeds > 1 else f", seed {group.curves[0].seed}"
    if kind == CANDIDATE:
        episodes = max(float(c.rows[-1]["episodes"]) for c in group.curves if c.rows)
        return f"{group.name}: {episodes:,.0f} training episodes{over}"
    last = max(float(c.rows[-1]["step"]) for c in group.curves)
    if kind != RL:
        return f"{group.name}: {last:,.0f} steps{over}"
    episodes = sum(row.get("episodes", 0) for c in group.curves for row in c.rows)
    about = group.about
    model = f" trained {about['model']} in {about['env']}" if about else ""
    return f"{group.name}{model}, {last + 1:,.0f} steps, {episodes:,.0f} episodes{over}"
