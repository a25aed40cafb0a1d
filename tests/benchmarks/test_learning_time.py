"""How long each recipe takes to learn to look things up: processor time of one thread, which is
what a quiet machine's clock would say."""

from __future__ import annotations

import time

import pytest
import torch

from searchgym.rl import shipped
from tests.benchmarks.table import show
from tests.rl.learners import NOT_HERE, trained
from tests.rl.lookup import success

pytestmark = pytest.mark.benchmark

LONGEST_S = 5.0


def test_every_recipe_learns_within_five_seconds() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    for name in sorted(set(shipped()) - NOT_HERE.keys()):
        for seed in (0, 1):
            run = trained(name, seed)
            before = success(run.lm, run.policy)
            began = time.process_time()
            episodes = sum(int(metrics["episodes"]) for metrics in run.train())
            took = time.process_time() - began
            after = success(run.lm, run.policy)
            rows.append((name, seed, run.config.steps, episodes, took, before, after))
    torch.set_num_threads(threads)
    show(
        "learning to look things up",
        ("recipe", "seed", "steps", "episodes", "seconds", "right before", "after"),
        rows,
    )
    assert all(row[6] > 0.75 for row in rows)
    assert max(row[4] for row in rows) <= LONGEST_S
