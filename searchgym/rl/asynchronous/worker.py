"""A process that plays groups of episodes with weights of its own, and the handle on it.

Only plans, JSON snapshots of episodes and arrays cross the pipe between the two processes; weights
come through a folder (``weights.py``).
"""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import EngineError
from ...llms.vllm_generator import place_for, size_of
from ...utils.processes import Channel, ParentGoneError
from ..roles import given_roles, take_over
from ..slots.protocols import Coef
from ..slots.protocols import make as make_slot
from ..slots.records import (
    POLICY,
    Group,
    OwnWeights,
    Packed,
    TaskPlan,
    Workers,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from torch import Tensor


KEPT = 3
"""Number of files at once while one is written: it and the two before."""


def new_folder(needed: int = 0) -> Path:
    """Make a folder with room for ``needed`` bytes, in memory where the system allows; the caller
    removes it. ``EngineError`` if there is no such place."""
    return Path(tempfile.mkdtemp(prefix="searchgym-weights-", dir=place_for(needed)))


def pick_staging_dir(folder: Path, weights: Mapping[str, Tensor]) -> Path:
    """Return ``folder``, an empty one, or another in its stead if the weights do not fit."""
    needed = KEPT * size_of(weights)
    if shutil.disk_usage(folder).free >= needed:
        return folder
    larger = new_folder(needed)
    shutil.rmtree(folder)
    return larger


def publish(folder: Path, weights: Mapping[str, Tensor], version: int) -> None:
    """Write a whole state dict as ``version``; the one before stays for those that are reading
    it."""
    from safetensors.torch import save_file

    partial = folder / "new.part"
    save_file({n: w.detach().cpu().contiguous() for n, w in weights.items()}, str(partial))
    os.replace(partial, folder / f"{version}.safetensors")
    for old in _versions(folder)[:-2]:
        (folder / f"{old}.safetensors").unlink(missing_ok=True)


def newest(folder: Path, than: int | None) -> tuple[int, dict[str, Tensor]] | None:
    """Read the latest version and its weights; None if that is ``than``.

    Raises:
        EngineError: there is none at all.
    """
    from safetensors.torch import load_file

    for _ in range(100):  # while it is opened, two newer ones may push it out
        versions = _versions(folder)
        if not versions:
            raise EngineError(f"{folder} holds no weights: the trainer is gone")
        if versions[-1] == than:
            return None
        try:
            return versions[-1], load_file(str(folder / f"{versions[-1]}.safetensors"))
        except FileNotFoundError:
            continue
    raise EngineError(f"weights in {folder} are replaced faster than they can be read")


def _versions(folder: Path) -> list[int]:
    try:
        return sorted(int(p.stem) for p in folder.glob("*.safetensors"))
    except FileNotFoundError:
        return []


Make = Callable[..., Workers]
"""Builds what a worker plays with. An importable function, or a ``functools.partial`` of one. The
model is a plain one, without adapters: it is given whole weights. It is called without arguments,
or, if it has a parameter ``worker`` without a default, with the worker's number from 0 on, by which
it may choose a GPU (``device=f"cuda:{worker}"``)."""


class Job(NamedTuple):
    """Groups to be played in one batch."""

    tickets: tuple[int, ...]
    plans: tuple[TaskPlan, ...]
    coef: Coef


class WorkerAnswer(NamedTuple):
    groups: list[Packed]
    seconds: float


class WorkerLostError(EngineError):
    """A worker's process ended, or did not answer in time."""


def build_workers(make: Make, number: int) -> Workers:
    """Build what worker ``number`` plays with."""
    try:
        wants = inspect.signature(make).parameters.get("worker")
    except (TypeError, ValueError):  # some callables tell nothing
        wants = None
    numbered = wants is not None and wants.default is wants.empty
    return make(worker=number) if numbered else make()


def serve(connection: Connection, make: Make, rollout: Any, folder: str, number: int = 0) -> None:
    """Run a worker: build the policy, then play jobs until the trainer is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer's business
    trainer = Channel(connection)
    try:
        workers, strategy = build_workers(make, number), make_slot("rollout", rollout)
        policy, held = workers.policy, -1
        workers = replace(workers, roles=given_roles(workers.roles, policy))

        def refresh() -> None:
            nonlocal held
            if (latest := newest(Path(folder), held)) is not None:
                held = latest[0]
                take_over(players, latest[1], held)

        players: dict[str, Any] = {POLICY: policy}
        for role, who in workers.roles.items():
            if isinstance(who, OwnWeights):
                players[role] = who.player
        for player in players.values():
            player.refresh = refresh
        refresh()
        trainer.send("ready")
        while True:
            job: Job = trainer.recv()
            begun = time.perf_counter()
            groups = strategy.collect(job.plans, replace(workers, coef=dict(job.coef)))
            trainer.send(WorkerAnswer(list(map(pack, groups)), time.perf_counter() - begun))
    except ParentGoneError:
        shutil.rmtree(folder, ignore_errors=True)  # the trainer was killed: nobody else will
    except Exception:  # whatever it is, the trainer raises it, with its traceback
        with suppress(ParentGoneError):
            trainer.send(traceback.format_exc())


@dataclass
class Worker:
    """The trainer's handle on one process; ``timeout_s`` bounds its start and each answer."""

    number: int
    context: Any
    """Context of ``multiprocessing``."""
    make: Make
    rollout: Any
    folder: Path
    timeout_s: float

    def start(self) -> None:
        """Start the process; :meth:`ready` waits until it can play."""
        self.connection, theirs = self.context.Pipe()
        arguments = (theirs, self.make, self.rollout, str(self.folder), self.number)
        name = f"rollouts-{self.number}"
        self.process = self.context.Process(target=serve, args=arguments, name=name, daemon=True)
        try:
            self.process.start()
        except (AttributeError, TypeError, PicklingError) as error:
            raise EngineError(
                f"a rollout worker cannot be given {self.make!r} ({error}): make must be an "
                "importable function, or a functools.partial of one"
            ) from error
        theirs.close()  # so that the pipe ends when the process does

    def ready(self) -> None:
        """Wait until it can play; raises as :meth:`play`."""
        self._answer("start")

    def play(self, job: Job) -> tuple[list[Group], float]:
        """Play a job; returns the finished groups, in order, and the seconds they took.

        Raises:
            WorkerLostError: the process ended or is late.
            EngineError: it says what went wrong.
        """
        what = f"play {', '.join(plan.name for plan in job.plans)}"
        try:
            self.connection.send(job)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._lost(what) from error
        answer: WorkerAnswer = self._answer(what)
        groups = list(map(unpack, job.plans, answer.groups))
        return groups, answer.seconds

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()
        self.connection.close()

    def _answer(self, what: str) -> Any:
        try:
            if not self.connection.poll(self.timeout_s):
                self.process.kill()
                raise WorkerLostError(
                    f"rollout worker {self.number} did not {what} within {self.timeout_s:g} s "
                    "(timeout_s)"
                )
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise self._lost(what) from error
        if isinstance(answer, str) and answer != "ready":
            raise EngineError(f"rollout worker {self.number} failed to {what}:\n{answer}")
        return answer

    def _lost(self, what: str) -> WorkerLostError:
        self.process.join(5)
        return WorkerLostError(
            f"rollout worker {self.number} ended with exit code {self.process.exitcode} while it "
            f"was to {what}"
        )
