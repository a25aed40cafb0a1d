"""Does a curriculum pay? Noise, hops and turns, growing or at their final level from the start.

Equal samples, three seeds, measured at the final difficulty on questions about a world that was
not trained in. Intervals are over seeds and questions. The numbers are what they are: nothing here
demands that curricula win, only that both ways of training taught something.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from searchgym.charts import Figure, multiples
from searchgym.curricula import Staged, make_curriculum
from searchgym.envs import SearchEnv
from searchgym.evaluation import crossed_interval
from searchgym.reports import mean_curve
from searchgym.seeding import derive
from searchgym_agents.candidate.features import FeatureBuilder
from tests.benchmarks.verdicts import verdict

from .curriculum_learner import EPISODES, Learner
from .table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
SEEDS = (0, 1, 2)
UPDATES, EVERY = 150, 25
"""Updates of 64 episodes; between measurements on a third of the questions."""
FAMILIES, TRAIN, HELD_OUT = ("simple", "chain-2"), 100, 150
"""Questions of one hop and of two; so many of each."""
STAGE = 10 * EPISODES
"""Episodes in ten updates: the least a stage lasts; at most it lasts five times as long."""


@dataclass(frozen=True)
class Axis:
    """What grows, from where, and where it ends. ``curriculum``: how it grows; ``final``: where."""

    final: Mapping[str, float]
    curriculum: Mapping[str, Any]

    def setting(self, split: str, count: int) -> SearchEnv:
        return SearchEnv(
            **{"corpus": "encyclopedia", "split": split, "world": {"entities": 300},
             "tasks": dict.fromkeys(FAMILIES, count), "engine": {"name": "degraded"},
             "max_turns": 5, "reward": {"f1": 1.0, "search": -0.02},
             "wording": {"phrasing": "train"}}
        )  # fmt: skip


AXES = {
    "noise": Axis(
        {"noise": 0.5},
        {"use": "zerosearch", "start": 0.0, "end": 0.5, "total": UPDATES},
    ),
    "hops": Axis(
        {"hops": 2},
        {"use": "staged", "max_hops": [1, 2], "threshold": 0.5, "min_episodes": STAGE,
         "max_episodes": 5 * STAGE},
    ),
    "turns": Axis(
        {"turns": 8},
        {"use": "scaling_inter", "rounds": [3, 5, 8], "every": UPDATES // 3},
    ),
}  # fmt: skip


@dataclass
class Run:
    """One training run, measured at the final difficulty on held-out questions."""

    f1: list[float]
    """Per question, at the end."""
    untrained: list[float]
    curve: list[tuple[int, float]]
    """Episodes so far, mean F1 on a third of the questions."""
    samples: int
    searches: float
    """Per question, at the end."""


def measured(learner: Learner, held_out: SearchEnv, final: Mapping[str, float], step: int) -> Any:
    """(Q,) F1 and searches of the best-scored actions; each question's luck is always the same."""
    tasks = held_out.tasks[::step]
    episodes = [
        held_out.start(derive(0, "held out", task.id), task=task, params=final) for task in tasks
    ]
    learner.play(episodes, None, held_out)
    f1 = np.array([e.outcome().parts.get("f1", 0.0) for e in episodes])  # type: ignore[union-attr]
    return f1, np.array([e.queries for e in episodes])


def run(axis: Axis, how: str, seed: int, worlds: tuple[SearchEnv, SearchEnv], builder: Any) -> Run:
    spec = axis.curriculum if how == "curriculum" else {"use": "uniform", "params": axis.final}
    curriculum = make_curriculum(spec)
    learner = Learner(worlds[0], builder, seed, UPDATES)
    curve: list[tuple[int, float]] = []
    untrained: NDArray[np.float64] = np.zeros(0)
    for update in learner.train(curriculum):
        if update < 0:
            untrained = measured(learner, worlds[1], axis.final, 1)[0]
        if (update + 1) % EVERY == 0:
            f1, _ = measured(learner, worlds[1], axis.final, 3)
            curve.append((learner.samples, float(f1.mean())))
    f1, searches = measured(learner, worlds[1], axis.final, 1)
    if isinstance(curriculum, Staged):
        assert curriculum.stage == 1, "never got there"
    else:
        assert curriculum.params() == pytest.approx(axis.final, rel=0.05), "never got there"
    return Run(f1.tolist(), untrained.tolist(), curve, learner.samples, float(searches.mean()))


def runs(name: str) -> Iterator[tuple[str, int, Run]]:
    axis, builder = AXES[name], FeatureBuilder(None, states=60_000)
    worlds = axis.setting("train", TRAIN), axis.setting("dev", HELD_OUT)
    for how in ("curriculum", "final"):
        for seed in SEEDS:
            yield how, seed, run(axis, how, seed, worlds, builder)


@pytest.mark.parametrize("name", sorted(AXES))
def test_curriculum_against_the_final_difficulty(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    found: dict[str, list[Run]] = {"curriculum": [], "final": []}
    for how, _, made in runs(name):
        found[how].append(made)
    table = {how: np.array([r.f1 for r in part]) for how, part in found.items()}
    gain = crossed_interval(table["curriculum"] - table["final"])
    rows: list[list[object]] = []
    for how, part in found.items():
        each = " ".join(f"{np.mean(r.f1):.3f}" for r in part)
        searches = float(np.mean([r.searches for r in part]))
        rows.append([how, str(crossed_interval(table[how], unit=True)), each, f"{searches:.2f}"])
        taught = crossed_interval(table[how] - np.array([r.untrained for r in part]))
        assert taught.low > 0, f"{how} taught nothing: {taught}"
    assert {r.samples for part in found.values() for r in part} == {UPDATES * EPISODES}
    rows.append(["difference", str(gain), verdict(gain), ""])
    show(
        f"{name}: F1 at {dict(AXES[name].final)} after {UPDATES * EPISODES:,} episodes, "
        f"{table['final'].shape[1]} held-out questions, {len(SEEDS)} seeds",
        ["trained by", "F1 [95 %]", "seeds", "searches"],
        rows,
    )
    folder = Path(os.environ.get("SEARCHGYM_FIGURES", tmp_path))
    kept = {
        how: [{"f1": r.f1, "curve": r.curve, "samples": r.samples} for r in part]
        for how, part in found.items()
    }
    (folder / f"curriculum_{name}.json").write_text(json.dumps(kept))
    draw(folder)


def draw(folder: Path) -> None:
    """Learning curves of the axes measured so far, a panel each: means bold, seeds thin."""
    files = {name: folder / f"curriculum_{name}.json" for name in AXES}
    there = {n: json.loads(p.read_text()) for n, p in files.items() if p.is_file()}
    series = {"curriculum": "curriculum", "final": "final difficulty from the start"}
    rows: list[dict[str, Any]] = []
    panels, gains = [], {}
    for name, found in there.items():
        level = ", ".join(f"{k} {v:g}" for k, v in AXES[name].final.items())
        panels.append(f"F1 on a held-out world, {level}")
        table = {how: np.array([part["f1"] for part in found[how]]) for how in series}
        gains[name] = crossed_interval(table["curriculum"] - table["final"])
        for how, label in series.items():
            lines = [[(float(x), float(y)) for x, y in part["curve"]] for part in found[how]]
            same = {"measure": panels[-1], "series": label}
            rows += [{**same, "x": x, "value": y, "seed": seed}
                     for seed, line in enumerate(lines) for x, y in line]  # fmt: skip
            rows += [{**same, "x": x, "mean": p.mean, "low": max(0.0, p.low),
                      "high": min(1.0, p.high), "seeds": p.n}
                     for x, p in mean_curve(lines)]  # fmt: skip
    told = ", ".join(f"{name} {gain.mean:+.3f}" for name, gain in gains.items())
    odd = [name for name, gain in gains.items() if gain.excludes(0)]
    title = f"A curriculum changes F1 for {', '.join(odd)}" if odd else (
        "A curriculum makes no difference that can be shown"
    )  # fmt: skip
    figure = Figure(
        "curricula", f"{title} (F1 with it minus F1 without: {told})",
        "Thin: seeds; bold: their mean, with 95 % interval.", f"{title}: {told}.",
        partial(multiples, rows, "training episodes", list(series.values()), panels, rates=panels),
        tuple(rows),
    )  # fmt: skip
    (folder / "curricula.png").write_bytes(figure.png())
