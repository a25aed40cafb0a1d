"""Draws the rows of a step: kinds of rows, in shares that change from stage to stage, each batch of
one kind and about as many tokens as any other. A pure function of seed and step, so that a killed
run goes on as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.errors import DataError
from searchgym.llms.batches import micro_batches
from searchgym.llms.sft_data import Example
from searchgym.seeding import stream

_BUCKET = 256
"""Rows that are sorted by length together: little padding, still mixed."""


class Stage(NamedTuple):
    """A part of a training: how many steps, and on what kinds of rows."""

    steps: int
    shares: Mapping[str, float]
    """Kind of row → share of the steps; they need not add up to 1."""


class Mixture:
    """Batches as places in ``rows``, the kinds' rows one after another.

    Args:
        kinds: Name → rows.
        stages: One after another.
        tokens: Of a batch at most, padding included; a longer row is a batch of its own.

    Raises:
        DataError: no stages or shares, a share below 0, or of a kind that has no rows.
    """

    def __init__(
        self,
        kinds: Mapping[str, Sequence[Example]],
        stages: Sequence[Stage],
        *,
        tokens: int = 1500,
        seed: int = 0,
    ) -> None:
        names = sorted({name for stage in stages for name in stage.shares})
        for name in names:
            if not kinds.get(name):
                raise DataError(
                    f"a stage takes rows of {name!r}, of which there are none; there are rows of "
                    f"{sorted(name for name, rows in kinds.items() if rows)}"
                )
        self.rows: list[Example] = []
        self._first: list[int] = []
        self._lengths: list[NDArray[np.int64]] = []
        for name in names:
            self._first.append(len(self.rows))
            self.rows += kinds[name]
            self._lengths.append(np.array([len(row.ids) for row in kinds[name]]))
        self._tokens, self._seed = tokens, seed
        self._kind = np.concatenate([_drawn(s, i, names, seed) for i, s in enumerate(stages)])
        self._nth = np.zeros(len(self._kind), dtype=np.int64)
        for kind in range(len(names)):
            mine = self._kind == kind
            self._nth[mine] = np.arange(mine.sum())
        self._epochs: dict[int, list[tuple[int, list[list[int]]]]] = {}

    def __len__(self) -> int:
        """Steps of all stages."""
        return len(self._kind)

    def batch(self, step: int) -> list[int]:
        """Places in ``rows`` of a step's batch; steps count from 0."""
        kind, nth = int(self._kind[step]), int(self._nth[step])
        if kind not in self._epochs:
            self._epochs[kind] = [(0, self._epoch(kind, 0))]
        epochs = self._epochs[kind]
        while nth >= (end := epochs[-1][0] + len(epochs[-1][1])):
            epochs.append((end, self._epoch(kind, len(epochs))))
        begin, batches = next(e for e in reversed(epochs) if e[0] <= nth)
        return batches[nth - begin]

    def _epoch(self, kind: int, number: int) -> list[list[int]]:
        draw = stream(self._seed, "epoch", kind, number)
        lengths = self._lengths[kind]
        order = draw.permutation(len(lengths))
        batches: list[list[int]] = []
        window = min(_BUCKET, -(-len(order) // 4))  # one would be cut alike in every epoch
        for lo in range(0, len(order), window):
            part = order[lo : lo + window]
            cut = micro_batches(lengths[part].tolist(), self._tokens)
            batches += ([int(part[i]) for i in batch] for batch in cut)
        first = self._first[kind]
        return [[first + i for i in batches[int(j)]] for j in draw.permutation(len(batches))]


def _drawn(stage: Stage, number: int, names: Sequence[str], seed: int) -> NDArray[np.int64]:
    """(steps,) the kind of each step of a stage, as its place in ``names``."""
    weight = np.array([stage.shares.get(name, 0.0) for name in names])
    if stage.steps < 1 or not weight.size or weight.min() < 0 or weight.sum() <= 0:
        raise DataError(
            f"stage {number} needs steps ≥ 1 and shares ≥ 0, not all 0; got {stage.steps} steps, "
            f"{dict(stage.shares)}"
        )
    draw = stream(seed, "kinds", number)
    return draw.choice(len(names), size=stage.steps, p=weight / weight.sum()).astype(np.int64)
