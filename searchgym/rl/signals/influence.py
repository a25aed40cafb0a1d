"""Signal: how much the results of a turn changed what the policy wrote next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ...policies.rows import Bools, Ints, TrainingRow
from ..slots.protocols import Slot
from ..slots.records import Group, Played, Signals, Workers


class Influence(Slot):
    """``influence``: (M, K) the mean, over the tokens of the next turn, of how much likelier they
    are after what was really read than after ``placeholder`` in its place (InfoPO, arXiv
    2603.00656).

    The placeholder's tokens are repeated to the length of what they replace, so that nothing moves:
    all that stands between the two turns in one row. 0 where a turn is the last, or nothing was
    read after it, or the next one reads another context. Two rows a turn go through the model.

    Args:
        placeholder: Text that tells nothing.
    """

    registered = "influence"
    by_turn = frozenset({"influence"})
    provides = frozenset({"influence"})

    def __init__(self, placeholder: str = "No information found.") -> None:
        if not placeholder:
            raise ValueError("placeholder is a text, got an empty one")
        self.placeholder = placeholder

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        signals: list[Signals] = []
        for group in groups:
            turns = max((len(m.episode.turns) for m in group.members), default=0)
            made = np.full((len(group.members), turns), np.nan)
            rows: list[TrainingRow] = []
            places: list[tuple[int, int]] = []
            for i, member in enumerate(group.members):
                made[i, : len(member.episode.turns)] = 0.0
                read = member.episode.contexts.visible(0)
                blank = np.array(
                    workers.policy.renderer.spell(read, self.placeholder).ids, np.int64
                )
                for number, true, other in _pairs(member, blank):
                    rows += [true, other]
                    places.append((i, number))
            if rows:
                with torch.no_grad():
                    sums = workers.lm.logp(rows).sum(1).cpu().double().numpy()
                counts = np.array([row.sampled.sum() for row in rows])
                with_, without = (sums / counts).reshape(-1, 2).T
                made[tuple(np.array(places).T)] = with_ - without
            signals.append({"influence": made})
        return signals


def _pairs(member: Played, blank: Ints) -> Iterator[tuple[int, TrainingRow, TrainingRow]]:
    """(turn, the next turn's tokens after what was read, the same after the placeholder)."""
    for row in member.rows:
        spans = [np.flatnonzero(row.turn_of_token == k) for k in range(len(row.turn_uids))]
        for k in range(len(spans) - 1):
            begin, end = int(spans[k][-1]) + 1, int(spans[k + 1][0])
            if begin == end:
                continue
            ids = row.ids[: int(spans[k + 1][-1]) + 1]
            other = ids.copy()
            other[begin:end] = np.resize(blank, end - begin)
            asked = row.sampled[: len(ids)] & (np.arange(len(ids)) >= end)
            number = int(row.turn_uids[k].rpartition("/")[2])
            yield number, asked_row(ids, asked), asked_row(other, asked)


def asked_row(ids: Ints, asked: Bools) -> TrainingRow:
    """A row in which only some tokens' log-probabilities are asked for."""
    n = len(ids)
    return TrainingRow(
        "", (), 0, "", ids, asked, asked, np.zeros(n, np.float32), np.full(n, -1),
        np.where(asked, 0, -1),
    )  # fmt: skip
