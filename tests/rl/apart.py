"""Trainings and players in processes of their own, for ``test_every_recipe``. The model is warm
once this is imported, so that a fork of a process that has imported it starts at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import searchgym.rl.asynchronous.worker  # noqa: F401
from searchgym.engines import BM25Engine  # noqa: F401
from searchgym.rl.processes import Processes
from searchgym.rl.slots.records import Workers
from searchgym.rl.trainer import Trainer
from tests.rl import as_shipped, lookup
from tests.rl.as_shipped import weights

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
torch.set_num_threads(1)  # nor do these
lookup.player(0)


def killed(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def stop(run: Trainer, moment: str, end: Callable[..., Any]) -> None:
    """Train until the second step, and end at a moment of it."""
    steps = run.train()
    next(steps)
    if moment == "playing":
        run._play = end  # type: ignore[method-assign]
    elif moment == "updating":
        run._publish = end  # type: ignore[method-assign]
    else:
        run.save_checkpoint = end  # type: ignore[method-assign]
    list(steps)


def stopping(name: str, moment: str, out: Path) -> None:
    """A training in a process of its own, which is killed."""
    torch.set_num_threads(1)
    stop(as_shipped.trainer(name, save_every=1, out=out), moment, killed)


def sharing(index: int, port: int, names: tuple[str, ...], out: Path) -> None:
    """One of two processes that train together, recipe after recipe."""
    os.environ |= {
        "RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    for name in names:
        run = as_shipped.trainer(name, tasks=4, processes=Processes("ddp", cpu=True))
        list(run.train())
        torch.save(weights(run), out / f"{name}.{index}")
    torch.distributed.destroy_process_group()


def play_apart() -> Workers:
    """Who plays in a process of its own: the warm model, which gets the trainer's weights."""
    torch.set_num_threads(1)
    lm, _ = lookup.player(0, temperature=1.6)
    return Workers(lm.policy("bare", sampling=lookup.SAMPLING, seed=0), as_shipped.env(), lm)
