"""The transfer table: every agent on every rung, with intervals, and agents compared in pairs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..charts.figure import to_csv
from ..charts.palette import SCRIPTS
from ..errors import MissingExtraError
from ..evaluation.comparison import unreadable
from ..evaluation.differences import crossed_interval, crossed_p, holm
from ..evaluation.intervals import FEWEST_SEEDS, Interval, mean_interval
from ..evaluation.metrics import METRICS
from ..evaluation.result import EvalResult, caveats
from ..evaluation.table import Column, ResultTable, frame
from ..reports.findings import ALL_REAL
from ..reports.sources import CURVES
from ..scoring.evidence import mean_defined
from ..scoring.metrics import MAIN
from .gains import (
    Drop,
    Gain,
    Joint,
    MetricTable,
    aligned,
    bound_of,
    drop_between,
    gain_table,
    paired_difference,
    transfer_ratio,
)

if TYPE_CHECKING:
    import pandas

    from ..charts.figure import Figure


class Contrast(NamedTuple):
    """``agent`` minus ``other`` on a rung, paired over questions and, where several, seeds."""

    rung: str
    agent: str
    other: str
    metric: str
    difference: Interval
    p: float
    """p-value of "no difference", see ``crossed_p``: by sign flips where there is one seed."""
    p_holm: float
    """Adjusted over the rungs on which the same two agents were compared."""


@dataclass(repr=False)
class TransferTable:
    """Results by rung and agent; an agent trained with several seeds has several per rung."""

    rungs: tuple[str, ...]
    agents: tuple[str, ...]
    results: dict[tuple[str, str], tuple[EvalResult, ...]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    """Rung → the rung it is one step away from."""
    baselines: dict[str, str] = field(default_factory=dict)
    """Agent → the agent its gains are counted from."""
    reference: str = ""
    """The rung whose gain is what was learnt in simulation."""
    absent: list[str] = field(default_factory=list)
    """One line per rung that could not be had, with the reason."""
    complete: bool = True
    seed: int = 0
    _cells: dict[tuple[str, str, str], Interval] = field(default_factory=dict, repr=False)

    def add(self, rung: str, agent: str, results: Sequence[EvalResult]) -> None:
        """Record the results (one per seed) of an agent on a rung."""
        self.results[rung, agent] = tuple(results)
        self._cells = {k: v for k, v in self._cells.items() if k[:2] != (rung, agent)}

    def cell(self, rung: str, agent: str, metric: str) -> Interval | None:
        """Mean and interval: over questions, and over seeds too where there are three or more (two
        say too little about others). None where the agent did not play (no oracle on real sets)."""
        per_seed = self.results.get((rung, agent))
        if not per_seed:
            return None
        key = (rung, agent, metric)
        if key not in self._cells:
            self._cells[key] = self._over_seeds(per_seed, metric)
        return self._cells[key]

    def _over_seeds(self, per_seed: Sequence[EvalResult], metric: str) -> Interval:
        if len(per_seed) == 1:
            return per_seed[0].means[metric]
        values, unit = aligned(per_seed, metric), METRICS[metric]
        if len(per_seed) < FEWEST_SEEDS:
            return mean_interval(values.mean(axis=0), seed=self.seed, unit=unit)
        interval = crossed_interval(values, seed=self.seed, unit=unit)
        if not unit and not (values < 0).any():  # counts are never negative
            interval = interval._replace(low=max(0.0, interval.low))
        return interval

    def each_seed(self, rung: str, agent: str, metric: str) -> list[float]:
        """The mean of every seed by itself; NaN where it has no value."""
        return [mean_defined(r.values(metric)) for r in self.results.get((rung, agent), ())]

    def questions(self, rung: str) -> int:
        return next((len(r[0].rows) for (name, _), r in self.results.items() if name == rung), 0)

    def contrasts(self, agent: str, others: Iterable[str], metric: str = "f1") -> list[Contrast]:
        """``agent`` against each other agent on every rung both have played."""
        out: list[Contrast] = []
        for other in others:
            drawn = []
            for rung in self.rungs:
                a, b = self.results.get((rung, agent)), self.results.get((rung, other))
                if a and b:
                    difference = paired_difference(a, b, metric)
                    interval = crossed_interval(difference, seed=self.seed, bound=bound_of(metric))
                    p = crossed_p(difference, seed=self.seed)
                    drawn.append((rung, interval, p))
            for (rung, interval, p), adjusted in zip(
                drawn, holm([p for _, _, p in drawn]), strict=True
            ):
                out.append(Contrast(rung, agent, other, metric, interval, p, adjusted))
        return out

    def against_scripts(self) -> list[Contrast]:
        """F1 of the agents that have a baseline against that of each scripted agent."""
        scripts = [name for name in SCRIPTS if name in self.agents]
        return [
            contrast
            for agent in self.baselines
            for contrast in self.contrasts(agent, [s for s in scripts if s != agent])
        ]

    def drops(self, metric: str = "f1") -> list[Drop]:
        """Return what each step of the ladder costs each agent that has played both rungs."""
        joint = Joint(self.seed)
        out = []
        for rung in self.rungs:
            above = self.above.get(rung, "")
            for agent in self.agents:
                a, b = self.results.get((above, agent)), self.results.get((rung, agent))
                if a and b:
                    drop, paired = drop_between(a, b, metric, joint)
                    out.append(Drop(rung, above, agent, metric, drop, paired))
        return out

    def gains(self, metric: str = "f1") -> list[Gain]:
        """Gains over the baselines and transfer ratios, per rung but the reference, and for the
        real sets together (:data:`ALL_REAL`) where there are several."""
        joint = Joint(self.seed)
        # a remote engine asks a real set's questions once more: they count once
        real = tuple(
            r for r in self.rungs
            if self.kinds.get(r) == "real" and self.kinds.get(self.above.get(r, "")) != "real"
        )  # fmt: skip
        places: dict[str, tuple[str, ...]] = {r: (r,) for r in self.rungs if r != self.reference}
        places |= {ALL_REAL: real} if len(real) > 1 else {}
        out = []
        for agent, baseline in self.baselines.items():
            if (base := self._gain(self.reference, agent, baseline, metric)) is None:
                continue
            for name, members in places.items():
                tables = [self._gain(r, agent, baseline, metric) for r in members]
                there = [t for t in tables if t is not None]
                if len(there) == len(tables):
                    told = transfer_ratio(there, base, joint, bound_of(metric))
                    out.append(Gain(name, agent, baseline, self.reference, metric, *told))
        return out

    def _gain(self, rung: str, agent: str, baseline: str, metric: str) -> MetricTable | None:
        a, b = self.results.get((rung, agent)), self.results.get((rung, baseline))
        return gain_table(a, b, metric) if a and b else None

    def used(self) -> list[dict[str, Any]]:
        """Return the cost of playing per rung and agent, summed over seeds: questions, seconds, and
        whatever the agent counts itself (requests, tokens, cost)."""
        out = []
        for (rung, agent), results in self.results.items():
            row: dict[str, Any] = {
                "rung": rung, "agent": agent, "seeds": len(results),
                "questions": sum(len(r.rows) for r in results),
                "seconds": round(sum(r.duration_s for r in results), 3),
            }  # fmt: skip
            for name in dict.fromkeys(name for r in results for name in r.usage):
                row[name] = sum(r.usage.get(name, 0.0) for r in results)
            out.append(row)
        return out

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows for CSV and data frames: one per rung, agent and metric."""
        return [
            {
                "rung": rung, "kind": self.kinds.get(rung, ""), "agent": agent, "metric": metric,
                "mean": round(interval.mean, 6), "low": round(interval.low, 6),
                "high": round(interval.high, 6), "questions": interval.n,
                "seeds": len(self.results[rung, agent]), "method": interval.method,
                "each_seed": " ".join(f"{m:.4f}" for m in self.each_seed(rung, agent, metric)),
                "infra_errors": sum(r.infra_errors for r in self.results[rung, agent]),
            }
            for rung in self.rungs
            for agent in self.agents
            if (rung, agent) in self.results
            for metric in (*MAIN, *(m for m in METRICS if m not in MAIN))
            if (interval := self.cell(rung, agent, metric)) is not None and interval.n
        ]  # fmt: skip

    def __repr__(self) -> str:
        odd = "" if self.complete else ", interrupted"
        return f"<TransferTable of {len(self.agents)} agents on {len(self.rungs)} rungs{odd}>"

    def _repr_html_(self) -> str:
        rows = tuple(
            {"set": f"{rung} ({self.questions(rung):,})",
             **{a: self.cell(rung, a, "f1") for a in self.agents}}
            for rung in self.rungs
        )  # fmt: skip
        columns = (Column("set", "set"), *(Column(a, a, 2) for a in self.agents))
        lost = caveats(r for results in self.results.values() for r in results)
        return ResultTable("f1", "F1, mean [95 % interval].", columns, rows, lost).html()

    def plot(self, metric: str = "f1") -> Figure:
        """Draw every agent's score on every rung, with its interval.

        Raises:
            MissingExtraError: the extra ``report`` is missing.
        """
        from ..reports.ladders import figure_of

        return figure_of(self.to_json(), metric=metric)

    def to_frame(self) -> pandas.DataFrame:
        """Return a row for each rung, agent and metric, see :meth:`rows`.

        Raises:
            MissingExtraError: pandas is missing (extra ``frames``).
        """
        return frame(self.rows())

    def unreadable(self) -> dict[str, dict[str, Any]]:
        """Return the agents most of whose turns on a rung were no legal action, with one of them
        and what could be read."""
        own = {a: [r for rung in self.rungs for r in self.results.get((rung, a), ())]
               for a in self.agents}  # fmt: skip
        return {a: wrong for a, rs in own.items() if (wrong := unreadable(rs)) is not None}

    def to_json(self, contrasts: Sequence[Contrast] = ()) -> dict[str, Any]:
        """The table, its comparisons and, per rung, the settings that move its numbers."""
        settings: dict[str, Any] = {}
        for (rung, _), results in self.results.items():
            settings.setdefault(
                rung, {k: v for k, v in results[0].settings.items() if k != "agent"}
            )
        return {
            "complete": self.complete,
            "rungs": [
                {"name": r, "kind": self.kinds.get(r, ""), "note": self.notes.get(r, ""),
                 "above": self.above.get(r, ""), "questions": self.questions(r),
                 "settings": settings.get(r)}
                for r in self.rungs
            ],
            "absent": self.absent,
            "reference": self.reference,
            "baselines": self.baselines,
            "table": self.rows(),
            "drops": [plain(d) for d in self.drops()],
            "gains": [plain(g) for g in self.gains()],
            "used": self.used(),
            "unreadable": self.unreadable(),
            "contrasts": [plain(c) for c in contrasts],
        }  # fmt: skip

    def save_json(self, path: Path, contrasts: Sequence[Contrast] = ()) -> Path:
        path.write_text(json.dumps(self.to_json(contrasts), indent=1, ensure_ascii=False), "utf-8")
        return path

    def save_csv(self, path: Path) -> Path:
        path.write_bytes(to_csv(self.rows()).encode())
        return path


def plain(value: Any) -> Any:
    """A row with its intervals as JSON values; NaN becomes null."""
    if hasattr(value, "_asdict"):
        return {k: plain(v) for k, v in value._asdict().items()}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return None if value != value else value


def save_report(
    out_dir: Path,
    table: TransferTable,
    *,
    learned: Mapping[str, Sequence[Any]] | None = None,
    contrasts: Sequence[Contrast] = (),
) -> dict[str, Path]:
    """Write every form of the table into ``out_dir``; returns what was written by name.

    ``transfer.json``, ``transfer.csv``, and, once there is a result, ``transfer.png`` (F1 with
    intervals) and ``report.html``, which needs no other file; ``curves.json`` holds how the agents
    that were trained have ``learned`` (runs with a ``seed`` and a ``curve``). 'searchgym report'
    makes the last two again from the rest; without the extra ``report`` a warning says so, and the
    others are written.
    """
    from ..reports.ladders import figure_of
    from ..reports.page import render, report_of, write

    out_dir.mkdir(parents=True, exist_ok=True)
    written = {
        "json": table.save_json(out_dir / "transfer.json", contrasts),
        "csv": table.save_csv(out_dir / "transfer.csv"),
    }
    if learned:
        written["curves"] = write(out_dir / CURVES, _curves(learned))
    if table.results:
        short = figure_of(json.loads(written["json"].read_text(encoding="utf-8")), short=True)
        try:
            written["transfer"] = write(out_dir / "transfer.png", short.png())
            written["html"] = write(out_dir / "report.html", render(report_of([out_dir])))
        except MissingExtraError as error:  # hours of evaluation are shown all the same
            warnings.warn(f"{error}; then 'searchgym report {out_dir}'", stacklevel=2)
    return written


def _curves(learned: Mapping[str, Sequence[Any]]) -> str:
    curves = [
        {"agent": name, "seed": run.seed, "curve": run.curve}
        for name, runs in learned.items() for run in runs
    ]  # fmt: skip
    return json.dumps(curves, indent=1)
