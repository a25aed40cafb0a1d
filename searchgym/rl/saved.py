"""Saved rollouts: some trajectories of each step with their tokens, masks, log-probabilities and
advantages, for ``searchgym view``. Training never reads them."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..core.trajectory import Trajectory, to_line
from ..utils.files import parse_json, writing
from .slots.batch import Batch

if TYPE_CHECKING:
    from ..policies.rows import TrainingRow

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
            "reward": _plain(float(batch.reward[place])),
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
            logp.append(_plain(float(row.logp[i])) if sampled else None)
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


def _by_token(adv: torch.Tensor | None, place: int, count: int) -> list[float]:
    """(count,) advantages of a trajectory's sampled tokens; 0 where the method has none."""
    if adv is None:
        return [0.0] * count
    mine = adv[place].detach().double().cpu().numpy()
    return np.broadcast_to(mine, (count,) if mine.ndim == 0 else mine.shape)[:count].tolist()


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
