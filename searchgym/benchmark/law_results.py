"""Predictions of a law of transfer beside what was measured: their quality, stored and drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards import catalog
from .law import AgentScores, Law, left_out, r_squared

if TYPE_CHECKING:
    from ..charts.figure import Figure

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
    said = {name: f"{v['mean']:.2f} [{v['low']:.2f}, {v['high']:.2f}]" for name, v in r2.items()}
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
    return catalog("agents") / "law_results.json"


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
    from ..charts.figure import Figure
    from ..charts.planes import predicted_and_measured

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
