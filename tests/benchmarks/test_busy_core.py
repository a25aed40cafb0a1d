"""What the quickstart's training takes beside a program that keeps one core busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .table import show

pytestmark = pytest.mark.benchmark

EPISODES = 2_000
TRAINING = """
import sys
from searchgym_agents.candidate.quickstart import quick_recipe
from searchgym_agents.candidate.training import SeedTrainer
SeedTrainer(quick_recipe(episodes=int(sys.argv[1])), sys.argv[2]).train(0)
"""
BUSY = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    pass
"""


def trained(folder: Path) -> float:
    """Seconds of a training in a process of its own, with the threads that a user's has."""
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", TRAINING, str(EPISODES), str(folder)],
        check=True, env=env, timeout=1_200, capture_output=True,
    )  # fmt: skip
    return time.perf_counter() - start


def test_a_busy_core_does_not_stop_a_training(tmp_path: Path) -> None:
    alone = trained(tmp_path / "alone")
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        beside = trained(tmp_path / "beside")
    finally:
        busy.kill()
        busy.wait()
    show(
        f"{EPISODES:,} episodes of the quickstart's training, seconds",
        ("alone", "beside a busy core", "ratio"),
        [(alone, beside, beside / alone)],
    )
    assert beside < 2.5 * alone
