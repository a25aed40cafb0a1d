"""Real worker processes: at η = 0 the synchronous numbers, else nothing too old; deaths, errors."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError, EngineError
from searchgym.llms import vllm_generator
from searchgym.rl.asynchronous.rollouts import AsyncRollouts
from searchgym.rl.asynchronous.worker import Worker, build_workers, publish
from searchgym.rl.recipe import Recipe
from searchgym.rl.slots.records import OwnWeights, Workers
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.llms.checks import free
from tests.rl import lookup
from tests.rl.colours import player, setting
from tests.rl.playing import make, with_roles
from tests.rl.trainers import success, weights

pytestmark = pytest.mark.contract

RECIPE: dict[str, Any] = {
    "rollout": {"use": "chains", "size": 8},
    "advantage": "grpo",
    "loss": {"use": "decoupled", "aggregate": "seq-mean-token-mean"},
}


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> None:
    """Each worker is a fork of a process that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rl.playing"])


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    """Of the weights of all rollouts of a test: removed, and nobody is left who reads them."""
    made: list[Path] = []
    yield made
    assert made
    assert not any(folder.exists() for folder in made)
    assert not multiprocessing.active_children()


def run(
    folders: list[Path], made: Any = make, *, recipe: Any = RECIPE, seed: int = 0, steps: int = 4,
    tasks: int = 3, lr: float = 5e-3, out: Path | None = None, **options: Any,
) -> tuple[Trainer, AsyncRollouts]:  # fmt: skip
    lm, policy = player(seed)
    rollouts = AsyncRollouts(made, start_method="forkserver", **options)
    folders.append(rollouts.folder)
    made_recipe = Recipe.of(recipe)
    config = TrainConfig.of(made_recipe, steps=steps, tasks=tasks, lr=lr, seed=seed, save_every=2)
    trainer = Trainer(setting(), lm, made_recipe, config, policy=policy, rollouts=rollouts, out=out)
    return trainer, rollouts


def test_without_lag_it_is_the_synchronous_trainer(folders: list[Path]) -> None:
    lm, policy = player(0)
    config = TrainConfig.of(Recipe.of(RECIPE), steps=4, tasks=3, lr=5e-3)
    alone = Trainer(setting(), lm, RECIPE, config, policy=policy)
    want = list(alone.train())
    trainer, rollouts = run(folders, eta=0, together=3)
    with rollouts:
        got = list(trainer.train())
    for mine, theirs in zip(got, want, strict=True):
        same = {n for n in theirs if not n.endswith("_s")}
        assert {n: mine[n] for n in same} == pytest.approx({n: theirs[n] for n in same}, abs=1e-5)
        assert mine["staleness/0"] == 1
        assert mine["importance_sampling_ratio/max"] == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(weights(trainer.lm), weights(lm), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "own"),
    [("search_r2_refiner", ""), ("search_r2_refiner", "refiner"), ("ai_searchplanner", "")],
)
def test_roles_are_played_in_worker_processes(folders: list[Path], name: str, own: str) -> None:
    """One that shares the policy's weights, one with its own, and a frozen one: the synchronous
    numbers."""
    recipe = Recipe.of({**Recipe.of(name).table, "advantage": "grpo"})
    config = TrainConfig.of(recipe, steps=2, tasks=2, lr=2e-3)
    lm, policy = lookup.player()

    def made() -> dict[str, Any]:
        given = {own: OwnWeights(*lookup.player(3))} if own else {}
        return {**lookup.roles_of(recipe), **given}

    roles = made()
    alone = Trainer(lookup.setting(), lm, recipe, config, policy=policy, roles=roles)
    want = list(alone.train())
    lm, policy = lookup.player()
    rollouts = AsyncRollouts(
        partial(with_roles, name, own), eta=0, together=2, start_method="forkserver"
    )
    folders.append(rollouts.folder)
    apart = Trainer(
        lookup.setting(), lm, recipe, config, policy=policy, roles=made(), rollouts=rollouts
    )
    with rollouts:
        got = list(apart.train())
    for mine, theirs in zip(got, want, strict=True):
        same = {n for n in theirs if not n.endswith("_s")}
        assert {n: mine[n] for n in same} == pytest.approx({n: theirs[n] for n in same}, abs=1e-5)
        shared = {n for n in theirs if n.startswith("roles/")}
        assert bool(shared) == (name == "search_r2_refiner")
    for role, model in apart.cast.lms.items():
        alike = weights(alone.cast.lms[role])
        torch.testing.assert_close(weights(model), alike, atol=1e-6, rtol=1e-5)


@pytest.mark.slow  # a whole training
def test_nothing_is_too_old_and_it_learns(folders: list[Path]) -> None:
    # Late gradients make a step unstable that is right without lag, and how late they are depends
    # on the machine (at 5e-3 two runs in five unlearnt what they had learnt, at 3e-3 one in about
    # a hundred), so the steps are many and small, and shrink.
    falling = {"use": "scheduled", "lr": {"kind": "linear", "start": 1.0, "end": 0.0, "total": 90}}
    slow = {"use": "tests.rl.playing:Slow", "size": 8}
    recipe = {**RECIPE, "rollout": slow, "schedule": falling}
    trainer, rollouts = run(folders, recipe=recipe, eta=2, workers=2, steps=90, lr=1e-3)
    before = success(trainer)
    with rollouts:
        seen = list(trainer.train())
    assert before < 0.5
    assert success(trainer) > 0.85
    assert max(m["staleness/max"] for m in seen) in (1, 2)
    for m in seen:
        assert m["staleness/max"] <= 2
        assert sum(m[f"staleness/{n}"] for n in range(3)) == pytest.approx(1)
        assert m["rollouts/dropped"] == 0
        assert 0 <= m["rollouts/trainer_idle"] <= 1
    moved = [m["importance_sampling_ratio/kl"] for m in seen]
    assert max(moved) > 1e-4, "old tokens are not as likely as they were"
    assert trainer.policy.version == 90


def test_m2po_leaves_out_what_has_grown_stale(folders: list[Path]) -> None:
    """One update per step: the ratio to the weights that sampled is 1 for fresh tokens, so what is
    left out is stale."""
    recipe = {**RECIPE, "loss": {"use": "m2po", "tau": 1e-5}}
    trainer, rollouts = run(folders, recipe=recipe, eta=2, steps=5)
    with rollouts:
        curve = list(trainer.train())
    assert curve[0]["clip_frac"] == 0
    assert max(m["clip_frac"] for m in curve) > 0


def test_who_comes_too_late_is_dropped(folders: list[Path]) -> None:
    recipe = {**RECIPE, "rollout": {"use": "tests.rl.playing:Slow", "size": 2}}
    trainer, rollouts = run(
        folders, recipe=recipe, eta=1, workers=3, steps=12, late="drop", tasks=2
    )
    with rollouts:
        seen = list(trainer.train())
    assert max(m["staleness/max"] for m in seen) <= 1
    assert sum(m["rollouts/dropped"] for m in seen) > 0


def test_more_rounds_in_one_update(folders: list[Path]) -> None:
    """Dynamic sampling asks again; the groups in between are not counted as trained on."""
    pairs = {"use": "chains", "size": 2}  # two are alike more often than not, whatever is learnt
    recipe = {**RECIPE, "rollout": pairs, "data": {"use": "dynamic", "max_rounds": 4}}
    trainer, rollouts = run(folders, recipe=recipe, eta=1, workers=2, steps=6, lr=1e-2)
    with rollouts:
        seen = list(trainer.train())
    assert max(m["groups"] for m in seen) > 3
    assert max(m["staleness/max"] for m in seen if "staleness/max" in m) <= 1


def test_a_killed_worker_is_replaced(folders: list[Path], tmp_path: Path) -> None:
    """And its groups are played again: the numbers are the same."""
    deadly = tmp_path / "kill"
    deadly.touch()
    trainer, rollouts = run(folders, partial(make, kill=str(deadly)), eta=0, together=3)
    with rollouts:
        got = list(trainer.train())
    assert not deadly.exists()
    assert got[-1]["rollouts/workers_lost"] == 1
    trainer, rollouts = run(folders, eta=0, together=3)
    with rollouts:
        want = list(trainer.train())
    assert [m["loss"] for m in got] == pytest.approx([m["loss"] for m in want], abs=1e-6)


def test_too_many_deaths_are_an_error(folders: list[Path], tmp_path: Path) -> None:
    deadly = tmp_path / "kill"
    deadly.touch()
    trainer, rollouts = run(folders, partial(make, kill=str(deadly)), restarts=0)
    with (
        rollouts,
        pytest.raises(
            EngineError,
            match=r"worker 0 ended with exit code -9 while it was to play 0\.0\. 1 workers",
        ),
    ):
        trainer.advance()


def test_a_worker_that_hangs_is_an_error(folders: list[Path]) -> None:
    trainer, rollouts = run(folders, partial(make, pause=60), restarts=0, timeout_s=4)
    with rollouts, pytest.raises(EngineError, match=r"did not play 0.0 within 4 s \(timeout_s\)"):
        trainer.advance()


def cut_off() -> Any:
    raise ConnectionResetError("the server hung up")


def test_a_worker_says_what_is_wrong(folders: list[Path]) -> None:
    trainer, rollouts = run(folders, partial(make, fail=True))
    with rollouts, pytest.raises(EngineError, match="RuntimeError: there is no such model"):
        trainer.advance()
    trainer, rollouts = run(folders, cut_off)
    with rollouts, pytest.raises(EngineError, match="ConnectionResetError: the server hung up"):
        trainer.advance()
    trainer, rollouts = run(folders, lambda: make())
    with rollouts, pytest.raises(EngineError, match="make must be an importable function"):
        trainer.advance()
    with pytest.raises(EngineError, match="closed"):
        trainer.advance()
    folders.append(AsyncRollouts(make).folder)
    rollouts.folder = folders[-1]
    rollouts.close()
    with pytest.raises(CardError, match="at least 1"):
        AsyncRollouts(make, workers=0)


def test_it_resumes(folders: list[Path], tmp_path: Path) -> None:
    trainer, rollouts = run(folders, eta=1, workers=2, out=tmp_path, steps=2)
    with rollouts:
        list(trainer.train())
    trainer, rollouts = run(folders, eta=1, workers=2, out=tmp_path, steps=5)
    with rollouts:
        seen = list(trainer.train())
    assert [m["step"] for m in seen] == [2, 3, 4]
    assert seen[0]["staleness/max"] == 0, "what was under way is played anew"
    assert max(m["staleness/max"] for m in seen) <= 1
    assert np.isfinite([m["loss"] for m in seen]).all()


def test_weights_lie_where_there_is_room(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    monkeypatch.setattr(vllm_generator, "SHARED", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    size = vllm_generator.size_of(player(0)[0].merged())
    free(monkeypatch, {str(shared): 3 * size - 1, str(other): 3 * size})
    trainer, rollouts = run(folders, steps=1)
    folders.append(rollouts.folder)
    with rollouts:
        assert not list(shared.iterdir()), "there is room for two files, and three may be there"
        assert rollouts.folder.parent == other
        assert np.isfinite([m["loss"] for m in trainer.train()]).all()
    free(monkeypatch, {str(tmp_path): 2 * size})
    with pytest.raises(EngineError, match="a larger /dev/shm"):
        run(folders)
    folders[-1].rmdir()


def numbered(worker: int, more: int = 0) -> Workers:
    raise RuntimeError(f"I am {worker + more}")


def test_a_worker_may_ask_for_its_number(folders: list[Path]) -> None:
    """As a parameter without default, which formerly could not be met."""
    trainer, rollouts = run(folders, partial(numbered, more=40))
    with rollouts, pytest.raises(EngineError, match="RuntimeError: I am 40"):
        trainer.advance()
    with pytest.raises(RuntimeError, match="I am 3"):
        build_workers(numbered, 3)
    with pytest.raises(RuntimeError, match="I am 7"):
        build_workers(partial(numbered, worker=7), 3)


def _train_and_be_killed(folder: str) -> None:
    own = make()
    rollouts = AsyncRollouts(make)
    Path(folder).write_text(str(rollouts.folder))
    config = TrainConfig(tasks=2, lr=1e-3)
    trainer = Trainer(setting(), own.lm, RECIPE, config, policy=own.policy, rollouts=rollouts)
    trainer.advance()
    os.kill(os.getpid(), 9)


def test_workers_end_with_the_pipe(tmp_path: Path) -> None:
    lm, _ = player(0)
    publish(tmp_path, lm.merged(), 0)
    context = multiprocessing.get_context("forkserver")
    worker = Worker(0, context, make, "chains", tmp_path, 60)
    worker.start()
    worker.ready()
    worker.connection.close()
    worker.process.join(20)
    assert worker.process.exitcode == 0
    assert not tmp_path.exists(), "the weights of a killed trainer are nobody's any more"


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_trainer(tmp_path: Path) -> None:
    told = tmp_path / "told"
    process = multiprocessing.get_context("forkserver").Process(
        target=_train_and_be_killed, args=(str(told),)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -9
    folder = Path(told.read_text())
    end = time.monotonic() + 20
    while folder.exists():  # a worker removes it when it ends
        assert time.monotonic() < end
        time.sleep(0.05)
