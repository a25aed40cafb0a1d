"""Reports of transfer: every agent on every rung, what each step costs, what carries over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..charts.figure import Figure
from ..charts.palette import BARS, UNTRAINED
from ..evaluation.intervals import FEWEST_SEEDS, Interval
from ..evaluation.metrics import METRICS, limits
from ..evaluation.table import Column, ResultTable, Seeds
from ..scoring.metrics import MAIN, label
from .findings import ALL_REAL, METRIC, MOST_SETS, NOT_ABOVE, RULES, Findings, standings, tells
from .report import (
    Block,
    Facts,
    Report,
    Section,
    flattened,
    forest_figure,
    listed,
    percent,
    quoted,
    run_facts,
)
from .sources import CANDIDATE, LADDER, Curve, Run
from .training import training_report

KINDS: Mapping[str, str] = {
    "generated": "Generated", "text": "Questions made of real text", "real": "Real passages",
}  # fmt: skip
FOCUS = "trained"
"""The agent a table is about, if it is there."""
TOLD = ("corpus", "engine", "questions", "search_enabled")
ENV_RULES = ("dialect", "k", "max_turns", "max_queries", "snippet_chars", "may_abstain", "reward")


def ladder_report(runs: Sequence[Run], title: str = "") -> Report:
    """Ladder, drops and transfer ratios, table, pairs, what is lost where, curves, settings."""
    cells = list(_cells(runs))
    agents = list(dict.fromkeys(c["agent"] for c in cells))
    rungs = {r["name"]: r for run in runs for r in reversed(run.ladder["rungs"])}
    order = list(dict.fromkeys(r["name"] for run in runs for r in run.ladder["rungs"]))
    order = [name for name in order if any(c["rung"] == name for c in cells)]
    focus = _focus(agents)
    pairs = [{**c, "agent": _named(run, c["agent"], len(runs) > 1)}
             for run in runs for c in run.ladder.get("contrasts", ())]  # fmt: skip
    played = [rungs[n] for n in order]
    drawn = ladder_figure(cells, _ordered(agents), played, contrasts=pairs)
    learned = training_report(_as_training(runs)).sections if any(r.curves for r in runs) else ()
    sections = [
        Section("The ladder", _absent(runs), (drawn,), link="Ladder"), _steps(runs), _gains(runs),
        _table(cells, agents, played, focus), _pairs(runs), _lacks(runs),
        *(s for s in learned if s.title == "Learning curves"), _used(runs),
        _settings(runs, played),
    ]  # fmt: skip
    warnings = [f"{run.path} was interrupted: some rows are missing; the same command goes on"
                for run in runs if not run.ladder.get("complete", True)]  # fmt: skip
    warnings += [f"Not in the table: {line}" for line in _missing(runs) if GET not in line]
    told = Findings(cells, played, focus, _own(agents), runs)
    return Report(
        title=title or told.title(), kind="transfer", summary=tuple(told.sentences()),
        sections=tuple(s for s in sections if s), warnings=tuple(dict.fromkeys(warnings)),
        sources=tuple(str(run.path) for run in runs),
    )  # fmt: skip


GET = "searchgym data get"
"""In what is said of a set that is not on this machine."""


def _missing(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(line for run in runs for line in run.ladder.get("absent", ())))


def _absent(runs: Sequence[Run]) -> str:
    """Name the sets that could not be measured; "" if there are none."""
    names = [line.partition(":")[0] for line in _missing(runs) if GET in line]
    if not names:
        return ""
    return f"Not on this machine: {listed(names)}. 'searchgym data' says how to get them."


def _as_training(runs: Sequence[Run]) -> list[Run]:
    curves_of: dict[str, list[Curve]] = {}
    for run in runs:
        for curve in run.curves:
            name = _named(run, str(curve.about["agent"]), len(runs) > 1)
            curves_of.setdefault(name, []).append(curve)
    return [
        Run(CANDIDATE, Path(name), {"recipe": name, "agent": name}, curves=tuple(curves))
        for name, curves in curves_of.items()
    ]


def _named(run: Run, agent: str, several: bool) -> str:
    return f"{run.name}: {agent}" if several else agent


def _cells(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Rows of all tables; of several runs agents bear the run's name, except where equal ones
    would be there twice."""
    seen: set[tuple[str, str, str]] = set()
    for run in runs:
        for row in run.ladder["table"]:
            agent = str(row["agent"])
            several = len(runs) > 1 and agent not in BARS - {RULES}
            name = _named(run, agent, several)
            key = (str(row["rung"]), name, str(row["metric"]))
            if key not in seen:
                seen.add(key)
                yield {**row, "agent": name}


def _focus(agents: Sequence[str]) -> str:
    for agent in agents:
        if agent == FOCUS or agent.endswith(f": {FOCUS}"):
            return agent
    return (_own(agents) or list(agents))[0]


def _own(agents: Sequence[str]) -> list[str]:
    """Return the agents that the table is about: not baselines, as scripts and untrained agents
    are."""
    last = {agent: agent.rpartition(": ")[2] for agent in agents}
    return [a for a in agents if last[a] not in BARS and not f" {last[a]}".endswith(UNTRAINED)]


def _ordered(agents: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([_focus(agents), *_own(agents), *agents]))


def _seeds(row: Mapping[str, Any]) -> list[float]:
    each_seed = row.get("each_seed") or ""
    values = each_seed.split() if isinstance(each_seed, str) else each_seed
    return [float(v) for v in values] if len(values) > 1 else []


def _few(row: Mapping[str, Any]) -> bool:
    """Return True if the interval is over too few seeds, as in older tables."""
    return len(_seeds(row)) in range(2, FEWEST_SEEDS) and "crossed" in str(row.get("method", ""))


def _mark(cell: Mapping[str, Any]) -> dict[str, Any]:
    if _few(cell):
        return {"mean": cell["mean"], "low": None, "high": None}
    least, most = limits(cell["metric"])
    return {
        "mean": cell["mean"], "low": max(least, cell["low"]), "high": min(most, cell["high"]),
    }  # fmt: skip


def _quantity(cell: Mapping[str, Any] | None) -> Interval | Seeds | None:
    if cell is None:
        return None
    if _few(cell):
        return Seeds(tuple(_seeds(cell)))
    return Interval.read({**cell, **_mark(cell)})


def _ends(interval: Interval) -> dict[str, Any]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _place(rung: Mapping[str, Any]) -> str:
    return f"{rung['name']} ({rung['questions']:,})"


def ladder_figure(
    cells: Sequence[Mapping[str, Any]], agents: Sequence[str], rungs: Sequence[Mapping[str, Any]],
    *, metric: str = METRIC, name: str = "ladder", contrasts: Sequence[Mapping[str, Any]] = (),
) -> Figure:  # fmt: skip
    """Scores by rung from near to far: a mark and interval per agent, a ring per seed.
    ``contrasts``: differences on the same questions, as a table holds them."""
    by_name = {rung["name"]: rung for rung in rungs}
    rows, seeds = [], []
    for cell in cells:
        rung = by_name.get(cell["rung"])
        if rung is None or cell["metric"] != metric or cell["agent"] not in agents:
            continue
        where = {"y": _place(rung), "by": cell["agent"], "rung": cell["rung"],
                 "facet": KINDS.get(rung.get("kind", ""), "Other")}  # fmt: skip
        rows.append({**where, **_mark(cell)})
        seeds += [{**where, "value": v, "seed": i} for i, v in enumerate(_seeds(cell))]
    order = [_place(rung) for rung in rungs]
    rows.sort(key=lambda r: order.index(r["y"]))
    own = [r for r in rows if not _again(by_name, str(r["rung"]))]
    return forest_figure(
        name, _finding(own, _focus(agents), metric, contrasts),
        "From the world of training (top) to real passages, number of questions in brackets. "
        "Lines: 95 % intervals over questions and, from three seeds on, seeds; rings: each seed. "
        "Clearly above or below: the interval of the difference on the same questions does not "
        "reach 0 or, where that is not known, the two intervals do not overlap.",
        rows, agents, f"{label(metric)}, mean and 95 % interval", seeds=seeds,
        alt=f"{label(metric)} of {len(agents)} agents on {len(rungs)} rungs.",
        rate=METRICS.get(metric, True),
    )  # fmt: skip


def _again(rungs: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    """Return True if a rung asks a real set's questions once more, as a remote engine does."""
    above = rungs.get(str(rungs[name].get("above") or ""), {})
    return rungs[name].get("kind") == above.get("kind") == "real"


def _finding(
    rows: Sequence[Mapping[str, Any]], focus: str, metric: str,
    contrasts: Sequence[Mapping[str, Any]],
) -> str:  # fmt: skip
    """Say on how many sets the focus is above rules beyond doubt, on which it is below, and its
    score on the first set and on the first real one."""
    own = {str(r["rung"]): r for r in rows if r["by"] == focus}
    if not own:
        return f"{label(metric)} by set"
    real = [n for n, r in own.items() if r["facet"] == KINDS["real"]]
    ends = dict.fromkeys([next(iter(own)), *(real[:1] or list(own)[-1:])])
    told = listed([f"{own[n]['mean']:z.2f} on {n}" for n in ends])
    scores = f"{label(metric)} {told}"
    cells = [{**r, "agent": r["by"], "metric": metric} for r in rows if r["by"] in (focus, RULES)]
    stands = standings(cells, contrasts, metric)
    signs = {rung: stand.sign for (rung, by), stand in stands.items() if by == focus}
    if focus == RULES or not signs:
        return f"{quoted(focus)} has {scores}"
    won, below = list(signs.values()).count(1), [n for n, sign in signs.items() if sign < 0]
    told = f"{quoted(focus)} is clearly above rules on {won or 'none'} of {len(signs)} set"
    told += "s" * (len(signs) > 1)
    if below:
        told += f", clearly below on {listed(below) if len(below) <= MOST_SETS else len(below)}"
    return f"{told}: {scores}"


def figure_of(table: Mapping[str, Any], *, short: bool = False, metric: str = METRIC) -> Figure:
    """Draw the ladder of one table (``TransferTable.to_json()``), for notebooks and pages.

    ``short``: of the agents that are there to be measured against only rules and oracle.
    """
    cells = list(_cells([Run(LADDER, Path("."), ladder=table)]))
    agents = list(dict.fromkeys(c["agent"] for c in cells))
    own = _own(agents)
    kept = [a for a in agents if a in own or a in ("rules", "oracle")]
    chosen = _ordered(kept if short and len(kept) > 1 else agents)
    played = {c["rung"] for c in cells}
    rungs = [r for r in table["rungs"] if r["name"] in played]
    return ladder_figure(cells, chosen, rungs, metric=metric,
                         contrasts=table.get("contrasts", ()))  # fmt: skip


def _steps(runs: Sequence[Run]) -> Section | None:
    rows = [
        {"rung": d["rung"], "above": d["above"], "agent": _named(run, d["agent"], len(runs) > 1),
         "drop": Interval.read(d["drop"]), "paired": bool(d.get("paired"))}
        for run in runs for d in run.ladder.get("drops", ()) if d.get("metric") == METRIC
    ]  # fmt: skip
    if not rows:
        return None
    agents = _ordered(list(dict.fromkeys(str(r["agent"]) for r in rows)))
    own = _own(agents) or agents[:1]
    name = label(METRIC)
    note = (
        f"{name} on the rung above minus {name} here, with 95 % interval: what the one thing that "
        "changed costs. Paired question by question where both rungs ask the same questions."
    )
    by: dict[str, dict[str, Any]] = {}
    for row in rows:
        first = {"rung": row["rung"], "above": row["above"], "paired": row["paired"]}
        by.setdefault(str(row["rung"]), first)[str(row["agent"])] = row["drop"]
    columns = (
        Column("rung", "rung"), Column("above", "the rung above"),
        Column("paired", "same questions"), *(Column(a, a, 2, signed=True) for a in agents),
    )  # fmt: skip
    table = ResultTable("drops", "Drop from the rung above", columns, tuple(by.values()), note)
    marks = [{"y": str(r["rung"]), "by": r["agent"], **_ends(r["drop"])}
             for r in rows if r["agent"] in own and r["drop"] is not None]  # fmt: skip
    if not marks:
        return Section("What each step costs", "", (table,), link="Steps")
    hardest = max(marks, key=lambda m: float(m["mean"]))
    title = f"No step costs {listed([quoted(a) for a in own])} any {name}"
    if hardest["mean"] > 0:
        title = (
            f"{quoted(hardest['by'])} loses most on {hardest['y']}: {hardest['mean']:z.2f} {name} "
            "less than on the rung above"
        )
    figure = forest_figure("drops", title, note, marks, own, f"drop in {name}, 95 % interval",
                           alt=f"Drops in {name}.", rate=False, zero=0.0)  # fmt: skip
    table = replace(table, note="")  # it stands below the figure
    return Section("What each step costs", "", (figure, table), link="Steps")


def _gains(runs: Sequence[Run]) -> Section | None:
    rows = []
    for run in runs:
        stands = standings(run.ladder["table"], run.ladder.get("contrasts", ()))
        real = [r["name"] for r in run.ladder["rungs"] if r.get("kind") == "real"]
        rows += [
            {"rung": g["rung"], "agent": _named(run, g["agent"], len(runs) > 1),
             "baseline": g["baseline"], "gain": Interval.read(g["gain"]),
             "reference": Interval.read(g["reference_gain"]),
             "ratio": Interval.read(g["ratio"]) if (said := tells(stands, g, real)) else None,
             "why": g.get("why", "") if said else NOT_ABOVE}
            for g in run.ladder.get("gains", ()) if g.get("metric") == METRIC
        ]  # fmt: skip
    if not rows:
        return None
    columns: tuple[Column, ...] = (
        Column("agent", "agent"), Column("baseline", "over"), Column("rung", "rung"),
        Column("gain", "gain", signed=True), Column("reference", "gain in simulation", signed=True),
        Column("ratio", "transfer ratio", 2), Column("why", "where none, why"),
    )  # fmt: skip
    note = (
        f"Gain: {label(METRIC)} over the baseline's on the same questions. Transfer ratio: gain on "
        "the rung as a share of the gain in a held-out generated world; 1: all that was learnt "
        "carries over, 0: nothing does. None where the agent is not above the best script beyond "
        "doubt. 95 % intervals over seeds and questions together."
    )
    if not any(r["why"] for r in rows):
        columns = columns[:-1]
    table = ResultTable("gains", "Transfer ratio", columns, tuple(rows), note, strong=ALL_REAL)
    marks = [{"y": str(r["rung"]), "by": str(r["agent"]), **_ends(r["ratio"])}
             for r in rows if r["ratio"] is not None]  # fmt: skip
    if not marks:
        return Section("What carries over", "", (table,), link="Kept")
    least = min(marks, key=lambda m: float(m["mean"]))
    share = f"{percent(least['mean'])} on {least['y']}"
    title = f"Where {quoted(least['by'])} beats the best script, it keeps at least {share}"
    if least["mean"] >= 1:
        title = f"Where {quoted(least['by'])} beats the best script, all it learnt carries over"
    figure = forest_figure(
        "transfer_ratio", title, note, marks,
        list(dict.fromkeys(m["by"] for m in marks)), "transfer ratio, 95 % interval",
        alt="Transfer ratios.", rate=False, zero=1.0,
    )  # fmt: skip
    table = replace(table, note="")
    return Section("What carries over", "", (figure, table), link="Kept")


def _table(
    cells: Sequence[Mapping[str, Any]], agents: Sequence[str], rungs: Sequence[Mapping[str, Any]],
    focus: str,
) -> Section:  # fmt: skip
    cell_of = {(c["rung"], c["agent"], c["metric"]): c for c in cells}
    rows = []
    for rung in rungs:
        for agent in agents:
            if (rung["name"], agent, METRIC) not in cell_of:
                continue
            own = cell_of[rung["name"], agent, METRIC]
            rows.append({
                "rung": rung["name"], "agent": agent, "questions": rung["questions"],
                "seeds": own.get("seeds", 1),
                **{m: _quantity(cell_of.get((rung["name"], agent, m))) for m in MAIN},
            })  # fmt: skip
    columns = (
        Column("rung", "set"), Column("agent", "agent"),
        *(Column(m, label(m), 2 if m == "searches" else 3) for m in MAIN),
        Column("seeds", "seeds"), Column("questions", "questions"),
    )  # fmt: skip
    note = (
        "Mean and 95 % interval. Bootstrap over questions (BCa); where an agent was trained with "
        "three seeds or more, over seeds and questions. EM: the normalised answer equals an "
        "accepted one. Episodes lost to the infrastructure are left out. No episodes are kept; "
        "'searchgym eval ENV -a AGENT --out RUN' keeps them, and its report links to them."
    )
    table = ResultTable("transfer", "Every agent on every set", columns, tuple(rows), note, focus)
    return Section("Table", "", (table,))


def _pairs(runs: Sequence[Run]) -> Section | None:
    rows = [
        {"rung": c["rung"], "agent": _named(run, c["agent"], len(runs) > 1), "other": c["other"],
         "difference": Interval.read(c["difference"]), "p": c["p"], "p_holm": c["p_holm"]}
        for run in runs for c in run.ladder.get("contrasts", ())
    ]  # fmt: skip
    if not rows:
        return None
    metric = next(c["metric"] for run in runs for c in run.ladder.get("contrasts", ()))
    columns = (
        Column("rung", "set"), Column("agent", "agent"), Column("other", "against"),
        Column("difference", "difference", signed=True), Column("p", "p", 4),
        Column("p_holm", "p (Holm)", 4),
    )  # fmt: skip
    table = ResultTable(
        "paired", f"Differences in {label(metric)}, paired on the same questions", columns,
        tuple(rows), "95 % intervals; p of no difference, adjusted by Holm over the sets.",
    )  # fmt: skip
    return Section("Agents compared", "", (table,))


def _lacks(runs: Sequence[Run]) -> Section | None:
    traits, strata = [], []
    for run in runs:
        for lack in run.ladder.get("lacks", ()):
            agent = _named(run, lack["agent"], len(runs) > 1)
            where = {"rung": lack["rung"], "agent": agent, "trait": lack["trait"]}
            traits.append({
                **where, "simulated": lack["simulated"], "lost": lack["lost"],
                "explained": Interval.read(lack["explained"]), "uncovered": lack["uncovered"],
            })  # fmt: skip
            strata += [
                {**where, "stratum": s["name"], "simulated_n": s["simulated_n"],
                 "real_n": s["real_n"], "few": "few" if s["few"] else "",
                 **{k: Interval.read(s[k]) for k in ("simulated", "real", "points")}}
                for s in lack["strata"]
            ]  # fmt: skip
    if not traits:
        return None
    first = (Column("rung", "set"), Column("agent", "agent"), Column("trait", "trait"))
    blocks = (
        ResultTable(
            "lacks", "Traits that go with lost points",
            (*first, Column("lost", "points lost"), Column("explained", "of it explained",
             signed=True), Column("uncovered", "unmatched", 2)),
            tuple(traits),
            f"{label(METRIC)}. Explained: what would come back if the real questions were mixed as "
            "the simulated ones are, stratum by stratum, with 95 % interval. Traits overlap, so "
            "shares do not add up, and none is shown to be a cause. Unmatched: share of the "
            "simulated questions of a kind that is not among the real ones.",
        ),
        ResultTable(
            "strata", "Stratum by stratum",
            (*first, Column("stratum", "stratum"), Column("simulated", "simulated", 2),
             Column("real", "real", 2), Column("points", "points", signed=True),
             Column("simulated_n", "questions, simulated"), Column("real_n", "real questions"),
             Column("few", "too few?")),
            tuple(strata), f"{label(METRIC)} of the questions of each kind, with 95 % intervals.",
            folded=True,
        ),
    )  # fmt: skip
    return Section("What the simulator lacks", "", blocks, link="Lacks")


def _used(runs: Sequence[Run]) -> Section | None:
    rows = [{**row, "agent": _named(run, row["agent"], len(runs) > 1)}
            for run in runs for row in run.ladder.get("used", ())]  # fmt: skip
    if not rows:
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    columns = tuple(Column(n, n.replace("_", " "), 1) for n in names)
    table = ResultTable("used", "Calls, time and cost", columns, tuple(rows), "Summed over seeds.")
    return Section("Cost", "", (table,))


def _settings(runs: Sequence[Run], rungs: Sequence[Mapping[str, Any]]) -> Section:
    blocks: list[Block] = []
    versions = []
    told: dict[str, dict[str, str]] = {}
    for rung in rungs:
        settings = rung.get("settings") or {}
        kept = {k: settings[k] for k in TOLD if k in settings}
        kept |= {k: v for k, v in settings.get("rules", {}).items() if k in ENV_RULES}
        told[rung["name"]] = dict(flattened(kept))
        versions.append(settings.get("versions", {}))
    names = list(dict.fromkeys(n for kept in told.values() for n in kept))
    shared = [n for n in names if len({kept.get(n) for kept in told.values()}) == 1]
    columns = [Column("rung", "set"), *(Column(n, n) for n in names if n not in shared)]
    note = "; ".join(f"{r['name']}: {r['note']}" for r in rungs if r.get("note"))
    if len(columns) > 1:
        rows = tuple({"rung": name, **kept} for name, kept in told.items())
        blocks.append(
            ResultTable("sets", "What differs between the sets", tuple(columns), rows, note)
        )
    first = next(iter(told.values()))
    blocks.append(Facts("The same for all sets", tuple((n, first[n]) for n in shared)))
    blocks += run_facts(runs, [v for v in versions if v])
    return Section("Settings and machine", "", tuple(blocks))
