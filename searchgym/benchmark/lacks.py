"""Gap analysis: relates traits of real questions to the points that agents lose on them.

Points are lost in two ways. Real sets hold more of the questions that are hard everywhere, and
questions of one kind are harder there. For each trait the first part is what would come back if the
real questions were mixed as the simulated ones are, stratum by stratum:

    explained = Σ_g (p_sim(g) - p_real(g)) · (real score of g - real score)

(DiNardo, Fortin & Lemieux 1996; Oaxaca 1973 with one categorical regressor.) Traits overlap, so
their shares do not add up, and none of them is shown to be a cause. Strata that simulation has and
the real set lacks cannot be reweighted to: their share is told, and the others are rescaled.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..evaluation.crossed import crossed_interval
from ..evaluation.intervals import Floats, Interval, mean_interval
from ..evaluation.metrics import METRICS
from ..seeding import stream
from .gains import aligned
from .rungs import Rung
from .table import TransferTable
from .traits import SHOWN, TRAITS, Strata, shown_strata, strata, vocabulary

FEW = 20
"""Strata of fewer questions say little; they are marked."""
RESAMPLES = 2_000


class Stratum(NamedTuple):
    """Questions of one kind, simulated and real."""

    name: str
    simulated_n: int
    real_n: int
    simulated: Interval
    """Score there; NaN without questions."""
    real: Interval
    points: Interval
    """Points that this stratum adds to ``Breakdown.explained``."""
    few: bool
    """True if either side has fewer than :data:`FEW` questions."""


class Breakdown(NamedTuple):
    """One trait's account of the points that are lost between two rungs."""

    trait: str
    lost: float
    """Simulated score minus real score."""
    explained: Interval
    """Points that come back when real questions are mixed as simulated ones."""
    uncovered: float
    """Share of the simulated questions in strata without real ones."""
    strata: tuple[Stratum, ...]


def breakdown(
    trait: str,
    simulated: tuple[Sequence[str], Floats],
    real: tuple[Sequence[str], Floats],
    *,
    seed: int = 0,
    unit: bool = True,
) -> Breakdown:
    """Lay two rungs side by side, stratum by stratum.

    Args:
        trait: Its name.
        simulated: Stratum (Q,) and scores (S, Q) of each question; no NaN.
        real: The same of the real rung.
        seed: Fixes the bootstrap over questions (seeds are averaged before).
        unit: Scores lie in [0, 1] by definition.
    """
    names = sorted({*simulated[0], *real[0]}, key=_order)
    place = {name: i for i, name in enumerate(names)}
    sim_of, real_of = (np.array([place[s] for s in side[0]]) for side in (simulated, real))
    sim, got = simulated[1].mean(axis=0), real[1].mean(axis=0)
    points = _points(sim_of, real_of, got, len(names))
    rng = stream(seed, "lacks", trait, len(sim), len(got))
    drawn = np.empty((RESAMPLES, len(names)))
    for b in range(RESAMPLES):
        a, c = rng.integers(len(sim), size=len(sim)), rng.integers(len(got), size=len(got))
        drawn[b] = _points(sim_of[a], real_of[c], got[c], len(names))
    n_sim, n_real = (np.bincount(of, minlength=len(names)) for of in (sim_of, real_of))
    rows = tuple(
        Stratum(
            name, int(n_sim[i]), int(n_real[i]),
            _score(simulated[1][:, sim_of == i], seed, unit),
            _score(real[1][:, real_of == i], seed, unit),
            _around(points[i], drawn[:, i], int(n_real[i])),
            bool(min(n_sim[i], n_real[i]) < FEW),
        )
        for i, name in enumerate(names)
    )  # fmt: skip
    uncovered = float(n_sim[n_real == 0].sum() / len(sim))
    explained = _around(points.sum(), drawn.sum(axis=1), len(got))
    return Breakdown(trait, float(sim.mean() - got.mean()), explained, uncovered, rows)


def lacks(
    table: TransferTable,
    rungs: Sequence[Rung],
    agents: Sequence[str],
    path: Path | None = None,
    *,
    metric: str = "f1",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Break down what each agent loses on every real rung against the rung above it (the
    reference rung where that was not played), most telling trait first; JSON values.

    ``path``: also written there.
    """
    by_name = {rung.name: rung for rung in rungs}
    real = [r for r in rungs if r.kind == "real" and r.step == "real" and r.name in table.rungs]
    breakdowns: list[dict[str, Any]] = []
    if not real or not agents:
        return breakdowns
    home = next((r for r in rungs if r.step == "source"), rungs[0]).env()
    known = vocabulary(home.corpus, home.tasks)
    by_rung: dict[str, tuple[list[str], Strata]] = {}

    def of(rung: Rung) -> tuple[list[str], Strata]:
        if rung.name not in by_rung:
            shared = rung.env()
            tasks = rung.tasks(shared, table.seed)
            by_rung[rung.name] = ([t.id for t in tasks], strata(shared, tasks, known))
        return by_rung[rung.name]

    for rung in real:
        near = rung.above if rung.above in by_name else table.reference
        for agent in agents:
            if near not in by_name or any(
                (name, agent) not in table.results for name in (near, rung.name)
            ):
                continue
            sides = [
                _side(table, name, agent, metric, *of(by_name[name])) for name in (near, rung.name)
            ]
            told = [
                breakdown(
                    trait, (sides[0][0][trait], sides[0][1]), (sides[1][0][trait], sides[1][1]),
                    seed=seed, unit=METRICS[metric],
                )
                for trait in (*TRAITS, SHOWN)
                if all(len(scores[0]) for _, scores in sides)
            ]  # fmt: skip
            told.sort(key=lambda b: -b.explained.mean)
            breakdowns += [
                {"rung": rung.name, "simulated": near, "agent": agent, "metric": metric,
                 **_json(b)}
                for b in told
            ]  # fmt: skip
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(breakdowns, ensure_ascii=False, indent=1), encoding="utf-8")
    return breakdowns


def _side(
    table: TransferTable, rung: str, agent: str, metric: str, ids: Sequence[str], told: Strata
) -> tuple[Strata, Floats]:
    """Strata and scores (S, Q) of the questions that were played, without lost ones."""
    results = table.results[rung, agent]
    scores = aligned(results, metric)
    with warnings.catch_warnings():  # no gold at all: NaN, which is its own stratum
        warnings.simplefilter("ignore", RuntimeWarning)
        recall = np.nanmean(aligned(results, "evidence_recall"), axis=0)
    place = {task: i for i, task in enumerate(ids)}
    order = [place[row.task_id] for row in results[0].rows]
    kept = np.flatnonzero(~np.isnan(scores).any(axis=0)).tolist()
    by_trait = {name: tuple(column[order[i]] for i in kept) for name, column in told.items()}
    by_trait[SHOWN] = shown_strata(recall[kept].tolist())
    return by_trait, scores[:, kept]


def _points(sim_of: Any, real_of: Any, real: Floats, strata: int) -> Floats:
    """Return the points (strata,) that each stratum adds to what is explained."""
    n_sim = np.bincount(sim_of, minlength=strata).astype(float)
    n_real = np.bincount(real_of, minlength=strata).astype(float)
    both = n_real > 0
    if not n_sim[both].sum():  # nothing in common: nothing to reweight to
        return np.zeros(strata)
    wanted = np.where(both, n_sim, 0) / n_sim[both].sum()
    total = np.bincount(real_of, weights=real, minlength=strata)
    score = np.divide(total, n_real, out=np.full(strata, real.mean()), where=both)
    return np.asarray((wanted - n_real / n_real.sum()) * (score - real.mean()))


def _score(table: Floats, seed: int, unit: bool) -> Interval:
    if len(table) == 1:
        return mean_interval(table[0], seed=seed, unit=unit)
    return crossed_interval(table, seed=seed, unit=unit)


def _around(value: float, drawn: Floats, n: int) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(value), float(low), float(high), n, "percentile")


def _order(name: str) -> tuple[int, int, str]:
    """Strata as people expect them: none, numbers ascending, words, unknown last."""
    if name in ("none", "all"):
        return (0, 0, name)
    digits = "".join(c for c in name.split("–")[0] if c.isdigit())
    more = name.startswith(("over", "beyond")) or name.endswith("more")
    rank = 3 if name == "unknown" else 1 if digits else 2
    return (rank, 2 * int(digits or 0) + more - name.startswith("under"), name)


def _json(told: Breakdown) -> dict[str, Any]:
    rows = [
        {
            **s._asdict(),
            **{n: _interval(getattr(s, n)) for n in ("simulated", "real", "points")},
        }
        for s in told.strata
    ]
    return {**told._asdict(), "explained": _interval(told.explained), "strata": rows}


def _interval(interval: Interval) -> dict[str, Any]:
    return {k: None if v != v else v for k, v in interval._asdict().items()}
