"""Killed at any moment and started again, a run's numbers are those of one that was left alone."""

from __future__ import annotations

import copy
import json
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.policies import Lora
from searchgym.rl.log import LOG
from searchgym.rl.recipe import Recipe
from searchgym.rl.trainer import CHECKPOINT, TrainConfig, Trainer
from searchgym.storage import read_state
from tests.rl.colours import player, setting
from tests.rl.killed import STEPS, main
from tests.rl.learners import recipes, trained
from tests.rl.trainers import LR, rows, trainer, weights

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def processes() -> Any:
    """Each is a fork of one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rl.killed"])
    return context


def logged(out: Path) -> int:
    path = out / LOG
    return path.read_text().count("\n") if path.exists() else 0


def begin(processes: Any, out: Path, warm: str) -> Any:
    run = processes.Process(target=main, args=(str(out), warm))
    run.start()
    return run


def finish(processes: Any, out: Path, warm: str) -> None:
    run = begin(processes, out, warm)
    run.join(200)
    assert run.exitcode == 0


def kill_after(processes: Any, out: Path, warm: str, lines: int, delay: float) -> None:
    """SIGKILL a run a moment after it has logged so many steps."""
    run = begin(processes, out, warm)
    try:
        end = time.monotonic() + 200
        while logged(out) < lines:
            assert run.is_alive(), "it ended before it was killed"
            assert time.monotonic() < end
            time.sleep(0.005)
        time.sleep(delay)
    finally:
        run.kill()
        run.join()
    assert run.exitcode == -9


@pytest.mark.parametrize("kind", ["one policy", "two"])
def test_killed_runs_repeat_exactly(tmp_path: Path, processes: Any, kind: str) -> None:
    warm = ""
    if kind == "one policy":
        warm = str(tmp_path / "warm.safetensors")
        model = player()[0].model
        save_file({n: p.detach().clone() for n, p in model.named_parameters()}, warm)
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    finish(processes, alone, warm)
    kill_after(processes, killed, warm, 1, 0.03)  # before the first checkpoint
    kill_after(processes, killed, warm, 5, 0.06)
    kill_after(processes, killed, warm, 9, 0.0)  # while the third is written, or about then
    finish(processes, killed, warm)
    assert len(rows(alone)) == STEPS
    assert rows(killed) == rows(alone)
    first, second = (load_file(out / CHECKPOINT) for out in (alone, killed))
    assert set(first) == set(second)
    assert any(name.startswith("roles/") or "ranker" in name for name in first) == (not warm)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


PARTS = (
    "loss", "rollout", "data", "critic", "advantage", "signal", "reward", "schedule", "train",
    "sampling",
)  # fmt: skip
"""Parts of a recipe that could keep something; the first recipe with each of them always runs."""


@pytest.mark.parametrize("name", list(recipes(*PARTS)))
def test_every_recipe_resumes(name: str, tmp_path: Path) -> None:
    """From a checkpoint in the middle, with what a kill leaves behind lying about. Not only the
    numbers are equal in the end, but all that is kept for the steps that may follow."""
    options: dict[str, Any] = {"steps": 3, "tasks": 2, "save_every": 2, "out": tmp_path / "run"}
    run = trained(name, 1, **options)
    steps = run.train()
    next(steps)
    next(steps)  # the checkpoint of two steps is written by now
    later = tmp_path / "later"
    shutil.copytree(tmp_path / "run", later)
    list(steps)
    assert logged(later) == 2
    with (later / LOG).open("a") as file:  # the third step was logged, but not saved
        file.write((tmp_path / "run" / LOG).read_text().splitlines()[2] + '\n{"step": 3, "rew')
    (later / (CHECKPOINT + ".part")).write_bytes(b"half a file")
    again = trained(name, 1, **{**options, "out": later})
    assert again.steps == 2
    assert again.policy.version == 2
    list(again.train())
    assert rows(later) == rows(tmp_path / "run")
    kept = [read_state(out / CHECKPOINT, "a trainer") for out in (later, tmp_path / "run")]
    assert len({timeless(header) for _, header in kept}) == 1
    (mine, _), (theirs, _) = kept
    assert set(mine) == set(theirs)
    assert all(torch.equal(value, theirs[key]) for key, value in mine.items())
    assert list(trained(name, 1, **{**options, "out": later}).train()) == [], "it is done"


def timeless(header: dict[str, Any]) -> str:
    """What a checkpoint keeps beside tensors, without clock times."""
    metrics = {k: v for k, v in header["metrics"].items() if not k.endswith("_s")}
    return json.dumps({**header, "metrics": metrics}, sort_keys=True)


def test_another_run_is_refused(tmp_path: Path) -> None:
    list(trainer("grpo", steps=1, out=tmp_path).train())
    with pytest.raises(DataError, match=r"settings \(config.lr, recipe.advantage,"):
        trainer("rloo", steps=1, out=tmp_path, lr=1e-4)
    longer = trainer("grpo", steps=2, out=tmp_path)
    assert [m["step"] for m in longer.train()] == [1.0]
    (tmp_path / CHECKPOINT).write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a checkpoint"):
        trainer("grpo", steps=1, out=tmp_path)


def test_muons_momentum_is_resumed(tmp_path: Path) -> None:
    options = {"steps": 4, "save_every": 2, "muon_lr": 0.01}
    alone = trainer("grpo", **options)
    there = [m["loss"] for m in alone.train()]
    first = trainer("grpo", out=tmp_path, **{**options, "steps": 2})
    here = [m["loss"] for m in first.train()]
    assert len(first.updater.optimizers) == 2
    second = trainer("grpo", out=tmp_path, **options)
    here += [m["loss"] for m in second.train()]
    assert here == there
    assert torch.equal(weights(second.lm), weights(alone.lm))
    with pytest.raises(DataError, match="muon_lr"):
        trainer("grpo", out=tmp_path, **{**options, "muon_lr": 0.02})


@pytest.mark.parametrize("recipe", [{"use": "rejection", "threshold": 2.0}, "uniform"])
def test_what_was_read_in_one_step_is_not_used_in_the_next(tmp_path: Path, recipe: Any) -> None:
    """Not even where no update came between: keys and values that an unbroken run still had, and a
    resumed one computes anew in another batch, would differ in their last digits."""
    spec = {"advantage": "ones", "loss": "sft", "data": recipe}

    def run(steps: int, out: Path) -> None:
        made = trainer(spec, steps=steps, tasks=3, save_every=1, out=tmp_path / out)
        for _ in made.train():
            generator: Any = made.policy.generator
            assert generator.prefixes is not None
            assert len(generator.prefixes) == 0

    run(3, Path("whole"))
    run(1, Path("cut"))
    run(3, Path("cut"))
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_checkpoints_know_what_they_were_trained_over(tmp_path: Path) -> None:
    """Adapters lie over weights that no checkpoint holds; another player draws other episodes."""
    lora = {"lora": Lora(rank=2)}
    for _ in trainer("grpo", steps=1, tasks=2, lm=lora, out=tmp_path).train():
        pass
    again = trainer("grpo", steps=2, tasks=2, lm=lora, out=tmp_path)
    assert again.steps == 1
    other, policy = player(0, **lora)
    with torch.no_grad():
        next(p for p in other.model.parameters() if not p.requires_grad).mul_(1.01)
    with pytest.raises(DataError, match=r"other settings \(model.frozen\)"):
        Trainer(setting(), other, "grpo", again.config, policy=policy, out=tmp_path)
    model, policy = player(0, **lora)
    policy.seed += 1
    with pytest.raises(DataError, match=r"other settings \(player.seed\)"):
        Trainer(setting(), model, "grpo", again.config, policy=policy, out=tmp_path)
    model, policy = player(0, **lora)
    fewer = setting().copy()
    fewer.setup = copy.copy(fewer.setup)
    fewer.setup.tasks = setting().tasks[:-1]
    with pytest.raises(DataError, match=r"other settings \(env.tasks\)"):
        Trainer(fewer, model, "grpo", again.config, policy=policy, out=tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reward": {"em": 50}}, "env.rules"),
        ({"search_enabled": False}, "env.search_enabled"),
        ({"params": {"turns": 1}}, "env.params"),
        ({"reward": lambda outcome: 2.0}, "env.own code"),
    ],
)
def test_checkpoints_know_what_was_paid_and_how_hard_it_was(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Also of a reward that no import path leads to, which can be trained with."""
    own = "own code" in said
    first = {"reward": lambda outcome: 1.0} if own else {}

    def begun(steps: int, options: dict[str, Any]) -> Trainer:
        lm, policy = player(0)
        env = SearchEnv(**{**setting().setup.keywords, **options})
        config = TrainConfig.of(Recipe.of("grpo"), steps=steps, tasks=2, lr=LR)
        return Trainer(env, lm, "grpo", config, policy=policy, out=tmp_path)

    list(begun(1, first).train())
    assert begun(2, first).steps == 1
    with pytest.raises(DataError, match=said):
        begun(2, changes)
