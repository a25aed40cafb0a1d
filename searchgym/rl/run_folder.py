"""Files of a run's folder: the checkpoint with its settings, rollouts to look at.

The checkpoint is one safetensors file with JSON in its header, no pickle. Random numbers need no
state: all that is drawn derives from the seed and the step.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ..core.trajectory import Trajectory, to_line
from ..errors import DataError
from ..llms.prompts import weights_digest
from ..policies.trainable import REFERENCE
from ..storage.checkpoint import (
    load_optimizer,
    optimizer_tensors,
    read_state,
    same_settings,
    under,
    write_state,
)
from ..storage.files import parse_json, writing
from ..utils.trust import own_code
from .roles import settings_of_roles
from .slots.batch import Batch
from .slots.records import POLICY

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..policies.rows import TrainingRow


FREE = ("steps", "save_every", "save_rollouts")
"""Options that a resumed run may change."""


def settings_of(run: Any) -> dict[str, dict[str, Any]]:
    """Tables of a trainer's settings: training options, recipe, player, environment, and a digest
    of the weights that are not trained."""
    policy, envs = run.policy, [_settings_of(env) for env in run.envs.envs]
    config = {name: value for name, value in asdict(run.config).items() if name not in FREE}
    return {
        "config": config,
        "recipe": dict(run.recipe.table),
        "player": {
            "renderer": getattr(policy.renderer, "fingerprint", type(policy.renderer).__name__),
            "sampling": policy.sampling._asdict(),
            "seed": policy.seed,
        },
        "env": envs[0] if len(envs) == 1 else {"shares": list(run.envs.shares), "each": envs},
        "model": {"frozen": weights_digest(_frozen_weights(run.cast, run.reference is not None))},
        **({"roles": settings_of_roles(run.roles)} if run.roles else {}),
    }


def _settings_of(env: SearchEnv) -> dict[str, Any]:
    return {
        "tasks": _digest([[task.id, task.question, *task.answers] for task in env.tasks]),
        "rules": _digest(env.rules.to_json()),
        "engine": getattr(env.engine, "fingerprint", type(env.engine).__name__),
        "search_enabled": env.search_enabled,
        "params": dict(env.params),
        "time_limit": env.time_limit,
        "own code": own_code(env),
    }


def _frozen_weights(cast: Any, moves: bool) -> Iterator[tuple[str, Any]]:
    """Weights that no checkpoint holds: those that are not trained, and the reference's unless it
    ``moves``. Sharded weights (FSDP2) are left out: gathering them all would take too long."""
    for role, lm in cast.lms.items():
        for name, tensor in lm.untrained():
            if not hasattr(tensor, "full_tensor") and not (moves and name.startswith(REFERENCE)):
                yield (name if role == POLICY else f"{role}/{name}"), tensor


def _place(role: str, what: str) -> str:
    """Beginning of the names of a role's tensors in a checkpoint."""
    return what if role == POLICY else f"roles/{role}/{what}"


def _digest(value: Any) -> str:
    plain = json.dumps(value, sort_keys=True, default=lambda o: type(o).__qualname__)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def save_checkpoint(run: Any, path: str | os.PathLike[str]) -> None:
    """Save trained weights, optimizer, slots, warnings and counters; the old file stays until the
    new one is whole and on disk. All processes of a run call this, the main one writes.

    Raises:
        DataError: the file cannot be written (disk full).
    """
    tensors: dict[str, Tensor] = {}
    for role, lm in run.cast.lms.items():
        at = _place(role, "lm")
        tensors |= {f"{at}/{k}": v.contiguous() for k, v in lm.state_dict().items()}
    for i, optimizer in enumerate(run.updater.optimizers):
        tensors |= optimizer_tensors(optimizer, f"optimizer/{i}")
    if run.critic is not None:
        tensors |= {f"critic/{name}": value for name, value in run.critic.tensors().items()}
    if run.reference is not None:
        for role, lm in run.cast.lms.items():
            at = _place(role, "reference")
            tensors |= {f"{at}/{k}": v.contiguous() for k, v in lm.reference_state().items()}
    tensors |= {f"slots/{name}": value for name, value in run.recipe.tensors().items()}
    header = {
        "settings": _plain(settings_of(run)),
        "steps": run.steps,
        "version": run.policy.version,
        "metrics": run.metrics,
        "slots": run.recipe.state_dict(),
        "monitor": run.monitor.state_dict(),
    }
    if run.processes.main:
        write_state(Path(path), tensors, header)


def load_checkpoint(run: Any, path: str | os.PathLike[str]) -> None:
    """Restore a run as :func:`save_checkpoint` found it.

    Raises:
        DataError: not a checkpoint of this trainer, or one of a run with other settings.
    """
    path = Path(path)
    tensors, header = read_state(path, "this trainer")
    was, slots = header.get("settings"), header.get("slots")
    if was is None or slots is None:
        raise DataError(f"{path}: not a checkpoint of this trainer (it has {sorted(header)})")
    now = _plain(settings_of(run))
    changed = (
        f"{table}.{name}"
        for table in {*now, *was}
        for name in {*now.get(table, {}), *was.get(table, {})}
        if now.get(table, {}).get(name) != was.get(table, {}).get(name)
    )
    same_settings(path, changed)
    for role, lm in run.cast.lms.items():
        lm.load_state_dict(under(tensors, _place(role, "lm")))
    for i, optimizer in enumerate(run.updater.optimizers):
        load_optimizer(optimizer, tensors, f"optimizer/{i}")
    if run.critic is not None:
        run.critic.load_tensors(under(tensors, "critic"))
    if run.reference is not None:
        for role, lm in run.cast.lms.items():
            lm.load_reference_state(under(tensors, _place(role, "reference")))
    run.recipe.load_state_dict(slots)
    run.recipe.load_tensors(under(tensors, "slots"))
    run.monitor.load_state_dict(header["monitor"])
    run.steps, run.metrics = int(header["steps"]), dict(header["metrics"])
    for policy in run.cast.policies.values():
        generator: Any = policy.generator
        generator.version = int(header["version"])


def _plain(settings: dict[str, Any]) -> Any:
    """Settings as JSON gives them back; an object becomes its class's name."""
    return json.loads(json.dumps(settings, default=lambda o: type(o).__qualname__))


ROLLOUTS = "rollouts.jsonl"


class SavedRollouts:
    """Append-only file of the first ``per_step`` trajectories of each step's batch."""

    def __init__(self, path: str | os.PathLike[str], per_step: int, tokenizer: Any) -> None:
        self.path, self.per_step, self._tokenizer = Path(path), per_step, tokenizer
        self._texts: dict[int, str] = {}

    def write(self, step: int, batch: Batch) -> None:
        """Append a step's trajectories, once their advantages are known.

        Raises:
            DataError: the file cannot be written (disk full).
        """
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            for index in range(min(self.per_step, len(batch))):
                file.write(to_line(self._trajectory(step, batch, index)))

    def cut(self, steps: int) -> None:
        """Keep the trajectories of the first ``steps`` steps. Lines that cannot be read are
        dropped; a warning says how many."""
        if not self.path.exists():
            return
        partial = self.path.with_name(self.path.name + ".part")
        broken = 0
        with writing(self.path):
            with self.path.open("rb") as old, partial.open("wb") as new:
                for line in old:
                    step = _step_of(line)
                    broken += step is None and line.endswith(b"\n")  # a kill may cut the last
                    if step is not None and step < steps:
                        new.write(line)
            os.replace(partial, self.path)
        if broken:
            warnings.warn(
                f"{self.path}: dropped {broken} line(s) that cannot be read as trajectories",
                stacklevel=2,
            )

    def _trajectory(self, step: int, batch: Batch, place: int) -> Trajectory:
        member = batch.members[place]
        advantages = _by_token(batch.adv, place, member.tokens)
        if (order := member.order) is not None:  # from the order of time back to that of rows
            advantages = [advantages[i] for i in np.argsort(order)]
        rows, by_turn, at = [], dict[int, list[float]](), 0
        for row in member.rows:
            count = int(row.sampled.sum())
            table, turns = self._row(row, advantages[at : at + count])
            rows.append(table)
            for turn, values in turns.items():
                by_turn.setdefault(turn, []).extend(values)
            at += count
        training = {
            "step": step,
            "group": str(int(batch.group[place])),
            "reward": _finite(float(batch.reward[place])),
            "advantages": {str(t): sum(v) / len(v) for t, v in by_turn.items()},
            "rows": rows,
        }
        return Trajectory.of(member.episode, member.purpose, member.usage, training)

    def _row(
        self, row: TrainingRow, advantages: list[float]
    ) -> tuple[dict[str, Any], dict[int, list[float]]]:
        """One row as lists with an entry per token, and the advantages of trained tokens by
        turn."""
        numbers = [int(uid.rpartition("/")[2]) for uid in row.turn_uids]
        left = iter(advantages)
        turn: list[int | None] = []
        logp: list[float | None] = []
        advantage: list[float | None] = []
        by_turn: dict[int, list[float]] = {}
        for i, sampled in enumerate(row.sampled.tolist()):
            number = numbers[int(row.turn_of_token[i])] if sampled else None
            earned = next(left) if sampled else None
            turn.append(number)
            logp.append(_finite(float(row.logp[i])) if sampled else None)
            advantage.append(earned if row.loss_mask[i] else None)
            if number is not None and earned is not None and row.loss_mask[i]:
                by_turn.setdefault(number, []).append(earned)
        table = {
            "context": row.context,
            "ids": row.ids.tolist(),
            "text": [self._text(i) for i in row.ids.tolist()],
            "turn": turn,
            "trained": row.loss_mask.tolist(),
            "logp": logp,
            "advantage": advantage,
        }
        return table, by_turn

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._tokenizer.decode([token])
        return self._texts[token]


def _step_of(line: bytes) -> int | None:
    """The step that wrote a line; None for a line that is no saved trajectory."""
    try:
        step = parse_json(line, "it")["training"]["step"]
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) and line.endswith(b"\n") else None


def _by_token(adv: Tensor, place: int, count: int) -> list[float]:
    mine = adv[place].detach().double().cpu().numpy()
    return np.broadcast_to(mine, (count,) if mine.ndim == 0 else mine.shape)[:count].tolist()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
