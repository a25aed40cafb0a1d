"""Some of each step's trajectories, token by token: what was trained on, how likely it was, and
which advantage it got. For ``searchgym view``; training neither reads them nor waits for more."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..trajectory import Trajectory, to_line
from .slots.batch import Batch

if TYPE_CHECKING:
    from ..policies.rows import Row

ROLLOUTS = "rollouts.jsonl"


class SavedRollouts:
    """Appends to ``path``: the first ``most`` trajectories of each step's batch."""

    def __init__(self, path: Path, most: int, tokenizer: Any) -> None:
        self.path, self.most, self._tokenizer = path, most, tokenizer
        self._texts: dict[int, str] = {}

    def write(self, step: int, batch: Batch) -> None:
        """A step's trajectories, once their advantages are known."""
        with self.path.open("a", encoding="utf-8") as file:
            for place in range(min(self.most, len(batch))):
                file.write(to_line(self._trajectory(step, batch, place)))

    def cut(self, steps: int) -> None:
        """Keep what the first ``steps`` steps wrote, and no half-written line."""
        if not self.path.exists():
            return
        partial = self.path.with_name(self.path.name + ".part")
        with self.path.open("rb") as old, partial.open("wb") as new:
            for line in old:
                if not line.endswith(b"\n") or json.loads(line)["training"]["step"] >= steps:
                    break  # steps are in order: nothing that counts follows
                new.write(line)
        os.replace(partial, self.path)

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
        return Trajectory.of(member.episode, member.purpose, training=training)

    def _row(
        self, row: Row, advantages: list[float]
    ) -> tuple[dict[str, Any], dict[int, list[float]]]:
        """One row's tokens as lists of equal length, and the advantages of those that are trained
        on, by turn."""
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


def _by_token(adv: torch.Tensor | None, place: int, count: int) -> list[float]:
    """One number for each of a trajectory's sampled tokens; 0 where the method has none."""
    if adv is None:
        return [0.0] * count
    mine = adv[place].detach().double().cpu().numpy()
    return np.broadcast_to(mine, (count,) if mine.ndim == 0 else mine.shape)[:count].tolist()


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
