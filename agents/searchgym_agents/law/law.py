"""A law of transfer: an agent's score on real questions, predicted from simulation alone.

Ridge regression over agents, on standardised columns:

    ŷ = ȳ + Σ_j w_j (x_j - mean_j) / sd_j,    w = argmin Σ_i (y_i - ŷ_i)² + λ Σ_j w_j²

where x_j is the agent's mean F1 on a generated rung and y the mean of its F1 on real sets. A law is
written to a file before new agents play the real sets, so that it can be wrong about them. The form
and λ are ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from searchgym.benchmark.ladder import REAL_SETS
from searchgym.errors import EvaluationError
from searchgym.evaluation.intervals import Interval
from searchgym.evaluation.result import EvalResult
from searchgym.seeding import stream
from searchgym.storage.files import read_json, write_whole

if TYPE_CHECKING:
    from searchgym.charts.figure import Figure


RUNGS = ("held-out wording", "other schema")
"""Generated rungs that predict by default: new phrasings, and new kinds of facts."""
RIDGE = 1.0
FEWEST = 4
"""Fewest agents that a law is fitted to."""
RESAMPLES = 5_000
SCHEMA = 1


class AgentScores(NamedTuple):
    """An agent's mean F1 by rung; several seeds of one agent are averaged."""

    agent: str
    simulated: Mapping[str, float]
    real: Mapping[str, float]
    """Empty for an agent that has not played a real set."""

    def target(self, sets: Sequence[str]) -> float:
        """Mean over real sets, each with the same weight.

        Raises:
            EvaluationError: a set was not played.
        """
        if lacking := [name for name in sets if name not in self.real]:
            raise EvaluationError(f"{self.agent} has not played {', '.join(lacking)}")
        return float(np.mean([self.real[name] for name in sets]))


def measured(folders: Iterable[Path]) -> list[AgentScores]:
    """Read what ``searchgym transfer --out`` wrote: agents in the order of their names.

    Raises:
        EvaluationError: no complete result in a folder.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for folder in folders:
        paths = sorted((folder / "results").glob("*/*.json"))
        if not paths:
            raise EvaluationError(
                f"{folder} holds no results: give a folder that 'searchgym transfer --out' wrote"
            )
        for path in paths:
            result = EvalResult.load(path)
            if result.complete:
                of_agent = scores.setdefault(result.agent, {})
                of_agent.setdefault(result.set, []).append(result.means["f1"].mean)
    return [
        AgentScores(
            agent,
            {rung: float(np.mean(v)) for rung, v in by_rung.items() if rung not in REAL_SETS},
            {rung: float(np.mean(v)) for rung, v in by_rung.items() if rung in REAL_SETS},
        )
        for agent, by_rung in sorted(scores.items())
    ]


@dataclass(frozen=True)
class Law:
    """A fitted regression, and the agents that it was fitted to."""

    rungs: tuple[str, ...]
    """Generated rungs whose F1 it reads."""
    sets: tuple[str, ...]
    """Real sets whose mean F1 it predicts."""
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    """F1 points per standard deviation of each rung."""
    intercept: float
    ridge: float
    agents: tuple[str, ...]

    def predict(self, agent: AgentScores) -> float:
        """Predict the mean F1 on the real sets, between 0 and 1.

        Raises:
            EvaluationError: the agent has not played a rung that the law reads.
        """
        x = (_columns([agent], self.rungs)[0] - self.means) / self.spreads
        return float(np.clip(self.intercept + x @ np.array(self.weights), 0.0, 1.0))

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)
        write_whole(path, text + "\n")

    @classmethod
    def load(cls, path: Path) -> Law:
        """Read what :meth:`save` wrote.

        Raises:
            EvaluationError: no such file, or not a law of this version.
        """
        try:
            stored: dict[str, Any] = read_json(path)
            if stored.pop("schema") != SCHEMA:
                raise ValueError("another version")
            fields: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()
            }
            law = cls(**fields)
            if not len(law.rungs) == len(law.means) == len(law.spreads) == len(law.weights):
                raise ValueError("lists of unequal length")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EvaluationError(
                f"{path} is not a law of transfer ({error}); 'searchgym law FOLDER --fix {path}' "
                "writes one"
            ) from error
        return law


def _columns(agents: Sequence[AgentScores], rungs: Sequence[str]) -> np.ndarray[Any, Any]:
    for agent in agents:
        if lacking := [rung for rung in rungs if rung not in agent.simulated]:
            raise EvaluationError(f"{agent.agent} has not played {', '.join(lacking)}")
    return np.array([[agent.simulated[rung] for rung in rungs] for agent in agents])


def shared_sets(agents: Sequence[AgentScores]) -> tuple[str, ...]:
    """Return the real sets that every agent has played, in the ladder's order."""
    return tuple(name for name in REAL_SETS if all(name in a.real for a in agents))


def fit(
    agents: Sequence[AgentScores], rungs: Sequence[str] = RUNGS, *, ridge: float = RIDGE,
    sets: Sequence[str] | None = None,
) -> Law:  # fmt: skip
    """Fit a law to agents that have played ``rungs`` and ``sets`` (default: those that all share).

    Raises:
        EvaluationError: too few agents, no real set that all have played, or a rung that one lacks.
    """
    if len(agents) < FEWEST:
        raise EvaluationError(f"a law needs at least {FEWEST} agents, got {len(agents)}")
    sets = shared_sets(agents) if sets is None else tuple(sets)
    if not sets:
        raise EvaluationError("no real set was played by every agent")
    x = _columns(agents, rungs)
    y = np.array([agent.target(sets) for agent in agents])
    means, spreads = x.mean(axis=0), x.std(axis=0)
    spreads = np.where(spreads > 0, spreads, 1.0)
    z = (x - means) / spreads
    weights = np.linalg.solve(z.T @ z + ridge * np.eye(len(rungs)), z.T @ (y - y.mean()))
    return Law(
        tuple(rungs), tuple(sets), tuple(means.tolist()), tuple(spreads.tolist()),
        tuple(weights.tolist()), float(y.mean()), ridge, tuple(a.agent for a in agents),
    )  # fmt: skip


def left_out(agents: Sequence[AgentScores], like: Law) -> list[float]:
    """Predict each agent by a law of the same form, fitted to all the others."""
    return [
        fit([*agents[:i], *agents[i + 1 :]], like.rungs, ridge=like.ridge, sets=like.sets).predict(
            agent
        )
        for i, agent in enumerate(agents)
    ]


def r_squared(real: Sequence[float], predicted: Sequence[float], *, seed: int = 0) -> Interval:
    """R² = 1 - Σ(y - ŷ)² / Σ(y - ȳ)², with a 95 % bootstrap interval over agents.

    Resamples in which all agents are equal have no R² and are left out.

    Raises:
        EvaluationError: fewer than three agents, or all of one real score.
    """
    y, guess = np.asarray(real, float), np.asarray(predicted, float)
    if len(y) < 3 or np.ptp(y) == 0:
        raise EvaluationError(f"R² needs three agents with different real scores, got {len(y)}")
    drawn = stream(seed, "law", len(y)).integers(len(y), size=(RESAMPLES, len(y)))
    spread = y[drawn].var(axis=1)
    error = ((y - guess) ** 2)[drawn].mean(axis=1)
    values = 1 - error[spread > 1e-12] / spread[spread > 1e-12]
    low, high = np.quantile(values, [0.025, 0.975])
    mean = 1 - float(((y - guess) ** 2).mean() / y.var())
    return Interval(mean, float(low), float(high), len(y), "bootstrap over agents")


FITTED, FORETOLD = "fitted", "foretold"


def scores(law: Law, agents: Sequence[AgentScores]) -> dict[str, Any]:
    """Return predictions and their quality: ``agents`` (rows), ``r2`` by kind, ``finding``.

    An agent that the law was fitted to is predicted by a law of the same form fitted to the others.
    """
    played = [a for a in agents if all(name in a.real for name in law.sets)]
    rows: list[dict[str, Any]] = []
    left = dict(zip([a.agent for a in played], left_out(played, law), strict=True))
    for agent in agents:
        unseen = agent.agent not in law.agents
        real = agent.target(law.sets) if agent in played else None
        rows.append({
            "agent": agent.agent, **{rung: agent.simulated.get(rung) for rung in law.rungs},
            "predicted": law.predict(agent) if unseen else left[agent.agent], "real": real,
            "law": FORETOLD if unseen else FITTED,
        })  # fmt: skip
    r2: dict[str, Any] = {}
    both = [a.target(law.sets) for a in played]
    r2["leave one out"] = r_squared(both, [left[a.agent] for a in played])._asdict()
    new = [row for row in rows if row["law"] == FORETOLD and row["real"] is not None]
    if len(new) >= 3:
        scores_of = {key: [row[key] for row in new] for key in ("real", "predicted")}
        r2["foretold"] = r_squared(scores_of["real"], scores_of["predicted"])._asdict()
    return {"agents": rows, "r2": r2, "finding": finding(r2), "law": law.__dict__}


def finding(r2: Mapping[str, Mapping[str, Any]]) -> str:
    """Say in a sentence how well generated worlds predict real scores."""
    said = {name: f"{v['mean']:z.2f} [{v['low']:z.2f}, {v['high']:z.2f}]" for name, v in r2.items()}
    out = r2["leave one out"]
    does = "foretell" if out["low"] > 0 else "do not foretell"
    text = (
        f"Generated worlds {does} real F1 of {out['n']} agents left out: R² {said['leave one out']}"
    )
    if "foretold" in r2:
        new = r2["foretold"]
        doubt = "" if new["low"] > 0 else ", no certainty"
        text += f"; of {new['n']} unseen ones: {said['foretold']}{doubt}"
    return text


def results_file() -> Path:
    """Path of the stored predictions, beside the law that made them (``law.json``)."""
    return Path(__file__).with_name("law_results.json")


def stored_results() -> dict[str, Any] | None:
    """Read the stored predictions (``searchgym law --out``); None if there are none."""
    path = results_file()
    if not path.is_file():
        return None
    predictions: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return predictions


def played(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a result whose agents have played the real sets, as a figure needs."""
    return [{**row, "kind": row["law"]} for row in result["agents"] if row["real"] is not None]


def figure(rows: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw predicted against measured scores.

    Args:
        rows: ``agent``, ``predicted``, ``real`` and ``kind`` of each agent.
        title: The finding.
    """
    from searchgym.charts.figure import Figure
    from searchgym.charts.planes import predicted_and_measured

    return Figure(
        "law", title,
        "Mean F1 over real sets, as predicted from generated worlds and as measured. On the line a "
        "prediction is right.",
        f"Scatter of {len(rows)} agents: predicted against measured F1 on real sets.",
        lambda narrow=False: predicted_and_measured(
            rows, "predicted from generated worlds (F1)", "measured on real sets (F1)",
            narrow=narrow,
        ),
        tuple(rows),
    )  # fmt: skip
