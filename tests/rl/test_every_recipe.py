"""Every recipe resumes after a stop at three moments; recipes that differ in kind do so when they
are killed, too, and give the same weights in two processes and with rollouts in a third."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.engines import BM25Engine  # noqa: F401
from searchgym.rl.asynchronous.rollouts import AsyncRollouts
from searchgym.rl.recipe_files import shipped
from tests.llms.server import free_port
from tests.rl import as_shipped
from tests.rl.as_shipped import weights

pytestmark = pytest.mark.slow
KINDS = ("dapo", "dpo", "ppo_turn", "igpo", "chord")
"""Groups played anew, pairs, a critic, rewards of turns by forward passes, and an expert."""


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> None:
    """Each process is a fork of one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rl.apart"])


MOMENTS = ("playing", "updating", "logged")


class Killed(Exception):
    """Ends a training where a kill would."""


def raised(*_: Any, **__: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("name", shipped())
def test_every_recipe_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    """Stopped while it plays, after its weights have changed, and after the log's line."""
    from tests.rl import apart  # which takes seconds

    whole = as_shipped.trainer(name, save_every=1)
    list(whole.train())
    for moment in MOMENTS:
        out = tmp_path / moment
        with pytest.raises(Killed):
            apart.stop(as_shipped.trainer(name, save_every=1, out=out), moment, raised)
        again = as_shipped.trainer(name, save_every=1, out=out)
        assert again.steps == 1
        list(again.train())
        assert torch.equal(weights(again), weights(whole)), moment


def started(target: Callable[..., None], *argument_lists: tuple[Any, ...]) -> list[int | None]:
    """Exit codes of processes that run beside each other."""
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=target, args=given) for given in argument_lists]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        if process.exitcode is None:
            process.kill()
    return [process.exitcode for process in processes]


@pytest.mark.parametrize("name", KINDS[:3])
def test_a_killed_training_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    from tests.rl import apart  # which takes seconds

    whole = as_shipped.trainer(name, save_every=1)
    list(whole.train())
    for moment in MOMENTS:
        out = tmp_path / moment
        assert started(apart.stopping, (name, moment, out)) == [-signal.SIGKILL]
        again = as_shipped.trainer(name, save_every=1, out=out)
        assert again.steps == 1
        list(again.train())
        assert torch.equal(weights(again), weights(whole)), moment


def close(got: torch.Tensor, want: torch.Tensor, title: str, capsys: Any) -> None:
    """As two processes that add up in another order."""
    start = as_shipped.before()
    with capsys.disabled():
        off = (got - want).norm() / (want - start).norm()
        print(f"\n{title}: {off:.1e} of the way that the weights have moved", end="")
    torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-4)


def test_two_processes_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.rl import apart  # which takes seconds

    port = free_port()
    assert started(apart.sharing, *((i, port, KINDS, tmp_path) for i in range(2))) == [0, 0]
    for name in KINDS:
        alone = as_shipped.trainer(name, tasks=4)
        list(alone.train())
        mine, others = (torch.load(tmp_path / f"{name}.{i}") for i in range(2))
        assert torch.equal(mine, others)
        close(mine, weights(alone), f"{name:12s} in two processes", capsys)


@pytest.mark.parametrize("name", KINDS)
def test_rollouts_without_lag_are_the_trainers(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.rl import apart  # which takes seconds

    alone = as_shipped.trainer(name)
    list(alone.train())
    with AsyncRollouts(apart.play_apart, eta=0, together=3, start_method="forkserver") as rollouts:
        run = as_shipped.trainer(name, rollouts=rollouts)
        list(run.train())
    close(weights(run), weights(alone), f"{name:12s} with rollouts apart", capsys)
