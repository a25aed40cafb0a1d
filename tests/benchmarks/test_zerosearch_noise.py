"""Does ZeroSearch's growing noise pay, with a language model as the engine?

One learner is trained three ways in a world whose engine is played by a fine-tuned model: noise
that grows from 0 to 0.5 (arXiv 2505.04588), 0.5 from the start, and the growing one's mean from the
start. Equal samples, three seeds. Measured on questions about a world that was not trained in: with
the model at noise 0.5 and at none, and with BM25, the engine that training did without. Intervals
are over seeds and questions. Nothing here demands that growing noise wins, only that every way
taught something.

The engine is a folder that ``searchgym simulator train`` wrote, named by ``SEARCHGYM_SIMULATOR``.
All runs go on side by side, so that the model writes for all of them at once. What it has written
is kept in a file: equal searches are written once, and an interrupted benchmark begins again with
what there is. With a model of 135 million parameters it takes about an hour of a core.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from searchgym.curricula import make_curriculum
from searchgym.envs import SearchEnv
from searchgym.evaluation import crossed_interval
from searchgym.llms import TransformersGenerator
from searchgym.seeding import derive
from searchgym_agents.candidate.features import FeatureBuilder

from .curriculum_learner import EPISODES, Learner
from .shared_generator import Shared
from .table import show
from .verdicts import verdict

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3 * 3600)]
SEEDS = (0, 1, 2)
UPDATES = 60
"""Updates of 64 episodes."""
TRAIN, HELD_OUT = 60, 60
"""Questions of one hop."""
END = 0.5
GROWING = {"use": "zerosearch", "start": 0.0, "end": END, "total": UPDATES, "base": 4.0}


def level(step: int) -> float:
    """Noise of the growing curriculum at a step."""
    curriculum: Any = make_curriculum(GROWING)
    curriculum.set_step(step)
    return float(curriculum.params()["noise"])


MEAN = round(float(np.mean([level(step) for step in range(UPDATES)])), 3)
WAYS: dict[str, dict[str, Any]] = {
    f"grows from 0 to {END}": GROWING,
    f"{END} from the start": {"use": "uniform", "params": {"noise": END}},
    f"{MEAN} from the start": {"use": "uniform", "params": {"noise": MEAN}},
}
RUNGS: dict[str, tuple[str, dict[str, float]]] = {
    f"model, noise {END}": ("simulated", {"noise": END}),
    "model, no noise": ("simulated", {"noise": 0.0}),
    "BM25": ("bm25", {}),
}
"""What is measured: engine and difficulty."""


class Run(NamedTuple):
    """One training: F1 per rung and question, before and after, and searches per question."""

    before: dict[str, NDArray[np.float64]]
    after: dict[str, NDArray[np.float64]]
    searches: dict[str, float]


def setting(engine: dict[str, Any], split: str, count: int) -> SearchEnv:
    return SearchEnv(
        **{"corpus": "encyclopedia", "split": split, "world": {"entities": 300},
         "tasks": {"simple": count}, "engine": engine, "max_turns": 4,
         "reward": {"f1": 1.0, "search": -0.02}, "wording": {"phrasing": "train"}}
    )  # fmt: skip


def measured(learner: Learner, env: SearchEnv, params: dict[str, float]) -> Any:
    """(Q,) F1 and searches of the best-scored actions; each question's luck is always the same."""
    episodes = [
        env.start(derive(0, "held out", task.id), task=task, params=params) for task in env.tasks
    ]
    learner.play(episodes, None, env)
    f1 = np.array([e.outcome().parts.get("f1", 0.0) for e in episodes])  # type: ignore[union-attr]
    return f1, np.array([e.queries for e in episodes])


def learner(seed: int, played: dict[str, Any]) -> Learner:
    return Learner(setting(played, "train", TRAIN), FeatureBuilder(None), seed, UPDATES)


def trained(learner: Learner, spec: dict[str, Any], played: dict[str, Any]) -> Run:
    """Train by one way of setting the noise, and measure on every rung before and after."""
    engines: dict[str, dict[str, Any]] = {"simulated": played, "bm25": {"name": "bm25"}}
    worlds = {name: setting(engine, "dev", HELD_OUT) for name, engine in engines.items()}
    before: dict[str, NDArray[np.float64]] = {}
    for update in learner.train(make_curriculum(spec)):
        if update < 0:
            before = {n: measured(learner, worlds[e], p)[0] for n, (e, p) in RUNGS.items()}
        elif (update + 1) % 10 == 0:
            print(f"{spec['use']} {spec.get('params', '')} seed {learner.seed}: {update + 1}")
    assert learner.samples == UPDATES * EPISODES
    ends = {n: measured(learner, worlds[e], p) for n, (e, p) in RUNGS.items()}
    return Run(
        before,
        {n: f1 for n, (f1, _) in ends.items()},
        {n: float(searches.mean()) for n, (_, searches) in ends.items()},
    )


def test_growing_noise_against_constant_noise(tmp_path: Path) -> None:
    model = os.environ.get("SEARCHGYM_SIMULATOR")
    if not model:
        pytest.skip("SEARCHGYM_SIMULATOR names no folder of 'searchgym simulator train'")
    torch.set_num_threads(1)
    folder = Path(os.environ.get("SEARCHGYM_FIGURES", tmp_path))
    played = {
        "name": "simulated", "words": 16, "temperature": 0.0, "max_tokens": 160,
        "generator": Shared(TransformersGenerator(model, dtype="bfloat16")),
        "cache": str(folder / "simulated.sqlite"),
    }  # fmt: skip
    learners = {how: [learner(seed, played) for seed in SEEDS] for how in WAYS}
    with ThreadPoolExecutor(
        len(WAYS) * len(SEEDS), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        going = {
            how: [pool.submit(trained, one, WAYS[how], played) for one in part]
            for how, part in learners.items()
        }
        runs = {how: [run.result() for run in part] for how, part in going.items()}
    kept = {
        how: [{"f1": {n: f1.tolist() for n, f1 in r.after.items()}, "searches": r.searches}
              for r in part] for how, part in runs.items()
    }  # fmt: skip
    (folder / "zerosearch_noise.json").write_text(json.dumps(kept))
    first, *others = WAYS
    for rung in RUNGS:
        table = {how: np.array([r.after[rung] for r in part]) for how, part in runs.items()}
        taught = {
            how: crossed_interval(table[how] - np.array([r.before[rung] for r in part]))
            for how, part in runs.items()
        }
        rows: list[list[object]] = []
        for how, part in runs.items():
            searches = np.mean([r.searches[rung] for r in part])
            rows.append([how, str(crossed_interval(table[how], unit=True)), f"{searches:.2f}"])
        for how in others:
            gain = crossed_interval(table[first] - table[how])
            rows.append([f"growing − {how}", str(gain), verdict(gain)])
        show(
            f"{rung}: F1 after {UPDATES * EPISODES:,} episodes, {table[first].shape[1]} held-out "
            f"questions, {len(SEEDS)} seeds",
            ["noise in training", "F1 [95 %]", "searches"],
            rows,
        )
        for how, gain in taught.items():
            assert gain.low > 0, f"{how} taught nothing on {rung}: {gain}"
