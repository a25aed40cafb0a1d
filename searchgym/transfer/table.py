"""The transfer table: every agent on every rung, with intervals, and agents compared in pairs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..evaluation.crossed import crossed_interval, crossed_p
from ..evaluation.intervals import Interval, holm
from ..evaluation.metrics import METRICS
from ..evaluation.result import EvalResult, pair
from ..scoring.evidence import mean_defined

SHOWN = ("em", "f1", "evidence_recall", "searches")
"""Metrics of the printed table; all others are in the JSON."""


class Contrast(NamedTuple):
    """``agent`` minus ``other`` on a rung, paired over questions and, where several, seeds."""

    rung: str
    agent: str
    other: str
    metric: str
    difference: Interval
    p: float
    """Of "no difference", see ``crossed_p``: by sign flips where there is one seed."""
    p_holm: float
    """Adjusted over the rungs on which the same two agents were compared."""


@dataclass
class TransferTable:
    """Results by rung and agent; an agent trained with several seeds has several per rung."""

    rungs: tuple[str, ...]
    agents: tuple[str, ...]
    results: dict[tuple[str, str], tuple[EvalResult, ...]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    seed: int = 0
    _cells: dict[tuple[str, str, str], Interval] = field(default_factory=dict, repr=False)

    def add(self, rung: str, agent: str, results: Sequence[EvalResult]) -> None:
        """Record the results (one per seed) of an agent on a rung."""
        self.results[rung, agent] = tuple(results)
        self._cells = {k: v for k, v in self._cells.items() if k[:2] != (rung, agent)}

    def cell(self, rung: str, agent: str, metric: str) -> Interval | None:
        """Mean and interval: over questions, and over seeds too where there are several. None
        where the agent did not play (no oracle on real sets)."""
        found = self.results.get((rung, agent))
        if not found:
            return None
        key = (rung, agent, metric)
        if key not in self._cells:
            self._cells[key] = (
                found[0].means[metric]
                if len(found) == 1
                else crossed_interval(_aligned(found, metric), seed=self.seed, unit=METRICS[metric])
            )
        return self._cells[key]

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
                    difference = _difference(a, b, metric)
                    interval = crossed_interval(difference, seed=self.seed)
                    p = crossed_p(difference, seed=self.seed)
                    drawn.append((rung, interval, p))
            for (rung, interval, p), adjusted in zip(
                drawn, holm([p for _, _, p in drawn]), strict=True
            ):
                out.append(Contrast(rung, agent, other, metric, interval, p, adjusted))
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
            for metric in (*SHOWN, *(m for m in METRICS if m not in SHOWN))
            if (interval := self.cell(rung, agent, metric)) is not None and interval.n
        ]  # fmt: skip

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
                 "questions": self.questions(r), "settings": settings.get(r)}
                for r in self.rungs
            ],
            "table": self.rows(),
            "contrasts": [
                {**c._asdict(), "difference": c.difference._asdict()} for c in contrasts
            ],
        }  # fmt: skip

    def save_json(self, path: Path, contrasts: Sequence[Contrast] = ()) -> Path:
        path.write_text(json.dumps(self.to_json(contrasts), indent=1, ensure_ascii=False), "utf-8")
        return path

    def save_csv(self, path: Path) -> Path:
        rows = self.rows()
        with path.open("w", encoding="utf-8", newline="") as file:
            if rows:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        return path


def _aligned(results: Sequence[EvalResult], metric: str) -> np.ndarray[Any, Any]:
    """(seeds, questions), every row in the order of the first result."""
    first = results[0]
    return np.stack([first.values(metric), *(pair(first, r, metric)[1] for r in results[1:])])


def _difference(
    a: Sequence[EvalResult], b: Sequence[EvalResult], metric: str
) -> np.ndarray[Any, Any]:
    """Paired differences (S, Q). Equally many seeds pair up (same seed, before and after
    training); otherwise each seed of the larger side is compared with the other's mean."""
    x, y = _aligned([a[0], *a[1:]], metric), _aligned([a[0], *b], metric)[1:]
    if len(x) == len(y):
        return x - y
    return x - y.mean(axis=0) if len(x) > len(y) else x.mean(axis=0) - y


def load_results(folder: Path) -> Mapping[tuple[str, str], tuple[EvalResult, ...]]:
    """All finished results below ``folder``, by (set, agent), seeds in order of file name."""
    found: dict[tuple[str, str], list[EvalResult]] = {}
    for path in sorted(folder.glob("*/*.json")):
        result = EvalResult.load(path)
        found.setdefault((result.set, result.agent), []).append(result)
    return {key: tuple(value) for key, value in found.items()}
