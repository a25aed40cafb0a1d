"""Reports of training runs: language models, warm starts, candidate agents; one or several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..rl import metrics
from .charts import multiples
from .curves import CurvePoint, changing, ends, over_seeds, smoothed, thinned
from .figure import Figure
from .report import Block, Column, Facts, Quantity, Report, Section, Table, facts_of
from .sources import CANDIDATE, RL, Curve, Run

UNIT = frozenset({
    "em", "f1", "cover_em", "invalid", "truncated", "overflowed", "length_cut", "clip_frac",
    "frac_reward_zero_std", "evidence_recall", "mean_token_accuracy",
})  # fmt: skip
"""Metrics that lie in [0, 1]: their intervals are cut there."""


class RunGroup(NamedTuple):
    """Runs that differ in their seed only: one series."""

    name: str
    curves: tuple[Curve, ...]
    about: Mapping[str, Any]


class Chart(NamedTuple):
    """A chart of a section: the measures that it shows."""

    name: str
    title: str
    intro: str
    measures: tuple[str, ...]
    known: bool = False
    """Values that were set, not measured: a moving average would only be late."""


def training_report(runs: Sequence[Run]) -> Report:
    """Curves, reward parts, curricula, coefficients, warnings, settings and machine."""
    kind = runs[0].kind
    groups = grouped(runs)
    x = "episodes" if kind == CANDIDATE else "step"
    marks = _marks(groups)
    sections = []
    for chart in _charts(kind, groups):
        if chart.measures:
            figure = _figure(chart, groups, x, marks, kind)
            sections.append(Section(chart.title, chart.intro, (figure,)))
    said = (_table(kind, groups) if _longest(groups) > 1 else None, _warnings(groups))
    sections[1:1] = [section for section in said if section is not None]
    sections.append(_settings(runs, groups))
    return Report(
        title=_title(kind, groups), kind=kind, summary=tuple(_summary(kind, groups)),
        sections=tuple(sections), sources=tuple(str(run.path) for run in runs),
        warnings=tuple(
            f"{name} (step {step:g}{', ' + where if where else ''}): {MEANING.get(name, '')}"
            for name, step, where in _warned(groups)
        ),
    )  # fmt: skip


def learning_figure(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw how candidate agents learned, by name: what a notebook shows of ``Learned.curve``."""
    groups = [RunGroup(name, (Curve(0, tuple(rows)),), {}) for name, rows in curves.items()]
    return _figure(_charts(CANDIDATE, groups)[0], groups, "episodes", (), CANDIDATE)


def grouped(runs: Sequence[Run]) -> list[RunGroup]:
    """Runs by all settings but seed, device and what may change in a run that goes on."""
    by: dict[str, list[Run]] = {}
    for run in runs:
        by.setdefault(json.dumps(_same(run.about), sort_keys=True) + _own(run), []).append(run)
    names = _names([members[0] for members in by.values()])
    return [
        RunGroup(name, tuple(c for run in members for c in run.curves), members[0].about)
        for name, members in zip(names, by.values(), strict=True)
    ]


def _own(run: Run) -> str:
    """Runs without written settings are each by themselves."""
    return "" if run.about else str(run.path)


def _same(about: Mapping[str, Any]) -> dict[str, Any]:
    free = {"seed", "steps", "save_every"}
    kept = {k: v for k, v in about.items() if k not in ("device", "recipe")}
    for table in ("train", "config"):
        if isinstance(kept.get(table), Mapping):
            kept[table] = {k: v for k, v in kept[table].items() if k not in free}
    return kept


def _names(firsts: Sequence[Run]) -> list[str]:
    """The recipe where it tells them apart, else the folder."""
    recipes = [str(run.about.get("recipe", "")) for run in firsts]
    if all(recipes) and len(set(recipes)) == len(recipes):
        return recipes
    names = [run.name for run in firsts]
    return names if len(set(names)) == len(names) else [str(run.path) for run in firsts]


def _charts(kind: str, groups: Sequence[RunGroup]) -> list[Chart]:
    rows = [row for group in groups for curve in group.curves for row in curve.rows]

    def there(*names: str) -> tuple[str, ...]:
        return tuple(n for n in names if any(row.get(n) is not None for row in rows))

    first = "Learning curves"
    if kind == CANDIDATE:
        about = "Greedy play on the development world, by training episodes."
        return [Chart("learning", first, about, there("f1", "em", "evidence_recall", "searches"))]
    if kind != RL:
        about = "Means over the steps between two lines of the log."
        return [
            Chart("learning", first, about, there("loss", "mean_token_accuracy", "tokens_per_s"))
        ]
    parts = tuple(changing(rows, "rewards/"))
    rare = tuple(
        name
        for name in ("overflowed", "length_cut", "infra_errors")
        if any(row.get(name) for row in rows)
    )
    difficulty = tuple(changing(rows, "difficulty/"))
    coefficients = tuple(changing(rows, "coef/"))
    return [
        Chart("learning", first, "What the policy earns and how it plays, per episode.",
              there("reward", "em", "f1", "searches", "turns", "completion_length")),
        Chart("reward_parts", "Reward parts", "What each part gave per episode, before weights. "
              "A reward that rises by other parts than the answer's is worth a look.", parts),
        Chart("curriculum", "Curriculum", "Each axis of difficulty, mean over the step's tasks.",
              difficulty, known=True),
        Chart("health", "How it learns", "Where collapses show first.",
              there("entropy", "frac_reward_zero_std", "invalid", "truncated", "grad_norm",
                    "clip_frac", "approx_kl", "kl", *rare)),
        Chart("coefficients", "Schedules", "Coefficients by step.", coefficients, known=True),
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
    for measure in chart.measures:
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
                smooth = smoothed([v for _, v in line], 1.0 if chart.known else 0.2)
                lines.append([(at, v) for (at, _), v in zip(line, smooth, strict=True)])
            points = over_seeds(lines)
            rows += [_mean_row(name, group.name, p, measure in UNIT) for p in points]
            if points:
                told.append(
                    f"{name}{f' of {group.name}' if len(groups) > 1 else ''} from "
                    f"{points[0].mean:.3g} to {points[-1].mean:.3g}"
                )
    seeds = max(len(group.curves) for group in groups)
    seeds_told = ", mean over seeds" if seeds > 1 else ""
    caption = "Thin: " + ("each seed as logged" if seeds > 1 else "as logged")
    caption += f"; thick: moving average (newest point weighs .2){seeds_told}"
    if chart.known:
        caption = f"Thin: each seed; thick{seeds_told}" if seeds > 1 else "As set at each step"
    if seeds > 2:
        caption += " with 95 % interval (Student's t)"
    if marks:
        caption += "; dashed vertical lines: warnings"
    measures = [label(m, kind) for m in chart.measures]
    drawn = multiples(
        rows, "training episodes" if x == "episodes" else "step", [g.name for g in groups],
        measures, marks=marks,
    )  # fmt: skip
    alt = f"{chart.title}{'' if chart.known else ', smoothed'}: {'; '.join(told)}."
    return Figure(chart.name, chart.title, caption + ".", alt, drawn, tuple(rows))


def values_of(curve: Curve, measure: str) -> list[float | None]:
    """A measure by row; a reward part that is not there was not given, which is 0."""
    missing = 0.0 if measure.startswith("rewards/") else None
    return [row.get(measure, missing) for row in curve.rows]


def _mean_row(measure: str, series: str, point: CurvePoint, unit: bool) -> dict[str, Any]:
    low, high = point.low, point.high
    if unit:
        low, high = max(0.0, low), min(1.0, high)
    return {
        "measure": measure, "series": series, "x": point.x, "mean": _round(point.mean),
        "low": _round(low), "high": _round(high), "seeds": point.seeds,
    }  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _ends(group: RunGroup, measure: str) -> tuple[Quantity | None, Quantity | None]:
    """Beginning and end, over seeds."""
    found = [ends([row.get(measure) for row in curve.rows]) for curve in group.curves]
    out = []
    for place in (0, 1):
        line = [[(0.0, pair[place])] for pair in found if pair[place] is not None]
        points = over_seeds(line)  # type: ignore[arg-type]
        out.append(Quantity(*points[0][1:4]) if points else None)
    return out[0], out[1]


def _longest(groups: Sequence[RunGroup]) -> int:
    """Logged points of the longest run: of one point there is no beginning and end."""
    return max((len(curve.rows) for group in groups for curve in group.curves), default=0)


def _table(kind: str, groups: Sequence[RunGroup]) -> Section:
    shown = {
        RL: ("reward", "em", "f1", "searches", "turns", "completion_length", "invalid",
             "truncated", "overflowed", "length_cut", "entropy"),
        CANDIDATE: ("f1", "em", "evidence_recall", "searches"),
    }.get(kind, ("loss", "mean_token_accuracy"))  # fmt: skip
    several = len(groups) > 1
    rows = []
    for group in groups:
        for measure in shown:
            first, last = _ends(group, measure)
            if first is None or last is None:
                continue
            alone = len(group.curves) == 1
            rows.append({
                "run": group.name, "measure": label(measure, kind), "seeds": len(group.curves),
                "first": first.mean if alone else first, "last": last.mean if alone else last,
                "change": last.mean - first.mean,
            })  # fmt: skip
    columns = [
        Column("run", "run"), Column("measure", "measure"), Column("first", "at first"),
        Column("last", "at last"), Column("change", "change", signed=True),
        Column("seeds", "seeds"),
    ]  # fmt: skip
    note = (
        "Means of the first and last ten logged points, or of halves where there are fewer. "
        "Intervals: 95 %, over seeds (Student's t)."
    )
    table = Table("ends", "First and last", tuple(columns if several else columns[1:]),
                  tuple(rows), note)  # fmt: skip
    return Section("In numbers", "", (table,))


MEANING: Mapping[str, str] = {
    "no_signal": "no group had two different rewards: nothing was learnt",
    "no_search": "the policy has all but stopped searching and answers from memory",
    "entropy_collapse": "hardly anything new is tried any more",
    "format_hacking": "reward rises while exact match does not: what is rewarded is not the answer",
    "length_blow_up": "episodes grow long or are cut by a budget",
}


def _warned(groups: Sequence[RunGroup]) -> list[tuple[str, float, str]]:
    """(name, step, where) in order of steps."""
    found = []
    for group in groups:
        for curve in group.curves:
            where = [group.name] * (len(groups) > 1)
            where += [f"seed {curve.seed}"] * (len(group.curves) > 1)
            for row in curve.rows:
                for name in row.get("warnings", ()):
                    found.append((str(name), float(row["step"]), ", ".join(where)))
    return sorted(found, key=lambda w: w[1])


def _marks(groups: Sequence[RunGroup]) -> list[dict[str, Any]]:
    return [{"x": step, "name": name} for name, step, _ in _warned(groups)]


def _warnings(groups: Sequence[RunGroup]) -> Section | None:
    rows = [
        {"step": int(step), "warning": name, "where": where, "meaning": MEANING.get(name, "")}
        for name, step, where in _warned(groups)
    ]
    if not rows:
        return None
    columns = [Column("step", "step"), Column("warning", "warning"), Column("meaning", "meaning")]
    if any(row["where"] for row in rows):
        columns.insert(1, Column("where", "run"))
    table = Table("warnings", "Named warnings", tuple(columns), tuple(rows),
                  "Each is given once a run, at the step at which it was noticed.")  # fmt: skip
    return Section("Warnings", "", (table,))


def _settings(runs: Sequence[Run], groups: Sequence[RunGroup]) -> Section:
    blocks: list[Block] = []
    if len(groups) > 1:
        blocks.append(_differing(groups))
    for group in groups:
        if group.about:
            blocks.append(facts_of(f"Settings: {group.name}", _same(group.about)))
    machines = {json.dumps(r.machine, sort_keys=True): r.machine for r in runs if r.machine}
    blocks += [facts_of("Machine and versions", found) for found in machines.values()]
    blocks.append(Facts("Folders", tuple((run.name, str(run.path)) for run in runs)))
    return Section("Settings and machine", "", tuple(b for b in blocks if b))


def _differing(groups: Sequence[RunGroup]) -> Table:
    flat = [dict(facts_of("", _same(g.about)).rows) for g in groups]
    names = [n for n in dict.fromkeys(n for f in flat for n in f)
             if len({f.get(n) for f in flat}) > 1]  # fmt: skip
    rows = [{"setting": n, **{g.name: f.get(n, "–") for g, f in zip(groups, flat, strict=True)}}
            for n in names]  # fmt: skip
    columns = (Column("setting", "setting"), *(Column(g.name, g.name) for g in groups))
    note = "Everything that was written down and is not the same; seeds and steps aside."
    return Table("differing", "Settings that differ", columns, tuple(rows), note)


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
            first, last = _ends(group, measure)
            if first and last:
                to = f" → {last.mean:.3g}" if _longest([group]) > 1 else ""
                moved.append(f"{label(measure, kind)} {first.mean:.3g}{to}")
        out.append(f"{_what(kind, group)}: {', '.join(moved)}.")
    if kind == RL:
        if any(name == "no_signal" for name, _, _ in _warned(groups)):
            out.append("Learnt nothing: no group had two different rewards.")
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
