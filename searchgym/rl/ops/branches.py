"""Trees of trajectories: the stretches between two places at which some branched off.

A *segment* is what one trajectory wrote between two such places; its tokens have one credit. Those
that begin in one *state* are siblings. Every trajectory ends in a leaf of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Average = Literal["states", "leaves"]
"""Values that a state's value is the mean of: those of the segments that begin there, or of all
leaves below."""
State = tuple[int, int]
"""(Number of the trajectory that led there, turn); (-1 - group, 0) for the question."""


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Turns ``first`` … of a trajectory, up to where others branched off it, or to its end."""

    line: int
    first: int
    state: State
    """State in which it begins."""
    after: State | None
    """State in which it ends; None: with its trajectory."""
    leaves: tuple[int, ...]
    """Trajectories that hold it: its own and those that branched off later."""


def segments(
    group: Tensor, number: Tensor | None, parent: Tensor | None, since: Tensor | None
) -> list[TurnSpan]:
    """Segments of a batch, those of a trajectory in order.

    A trajectory whose parent is not in the batch begins in a state of its own, with its siblings.

    Args:
        group, number, parent, since: (B,) as in ``Batch``; None: nothing branched off.
    """
    groups = group.tolist()
    count = len(groups)
    own = list(range(count)) if number is None else number.tolist()
    above = [-1] * count if parent is None else parent.tolist()
    starts = [0] * count if since is None else since.tolist()
    place = {n: i for i, n in enumerate(own)}
    begins: list[State] = []
    left: dict[int, list[int]] = {}
    for i in range(count):
        up = above[i]
        while up in place and starts[i] <= starts[place[up]]:  # it left where its parent began
            up = above[place[up]]
        begins.append((-1 - groups[i], 0) if up == -1 else (up, starts[i]))
        if up in place:
            left.setdefault(place[up], []).append(i)

    def under(line: int, after: int) -> list[int]:
        """The line and all that left it after a turn."""
        lines = [line]
        for child in left.get(line, ()):
            if starts[child] > after:
                lines += under(child, starts[child])
        return lines

    made: list[TurnSpan] = []
    for i in range(count):
        cuts = sorted({starts[c] for c in left.get(i, ())})
        firsts = [starts[i], *cuts]
        states: list[State | None] = [begins[i], *((own[i], cut) for cut in cuts), None]
        for k, first in enumerate(firsts):
            state = states[k]
            assert state is not None
            made.append(TurnSpan(i, first, state, states[k + 1], tuple(sorted(under(i, first)))))
    return made


def at_tokens(spans: Sequence[TurnSpan], values: Sequence[float], turn: Tensor) -> Tensor:
    """(B, T) a number of each segment at its tokens; ``turn`` is (B, T)."""
    made = torch.zeros(turn.shape)
    for segment, value in zip(spans, values, strict=True):  # a later one writes over what follows
        line = segment.line
        made[line] = torch.where(turn[line] >= segment.first, value, made[line])
    return made


@dataclass(frozen=True, slots=True)
class Valued:
    """A segment's worth."""

    before: float
    """Value of the state where it begins; NaN: none of its leaves was scored."""
    end: float
    """Value of where it ends."""
    siblings: tuple[float, ...]
    """Values of all ends of segments that begin in its state, its own among them."""


def values(
    spans: Sequence[TurnSpan], reward: Sequence[float], average: Average = "states"
) -> list[Valued]:
    """Values of states as means over what follows (SPO, arXiv 2505.23564): a leaf is worth its
    reward, a state the mean of its segments' ends. With ``average = "leaves"`` a segment's end is
    worth the mean of all leaves below, each counted once, as a tree search backs them up (PROPA,
    arXiv 2511.10279), and what begins in one state is compared as equals. Rewards that are NaN
    count nowhere."""
    ahead: dict[State, list[int]] = {}
    for k, segment in enumerate(spans):
        ahead.setdefault(segment.state, []).append(k)
    ends: dict[int, float] = {}

    def end(k: int) -> float:
        if k not in ends:
            after = spans[k].after
            if after is None:
                ends[k] = float(reward[spans[k].line])
            elif average == "states":
                ends[k] = mean(spread(after))
            else:
                below = [float(reward[i]) for i in spans[k].leaves]
                ends[k] = mean([r for r in below if not math.isnan(r)])
        return ends[k]

    def spread(state: State) -> list[float]:
        return [v for k in ahead[state] if not math.isnan(v := end(k))]

    made = []
    for k, segment in enumerate(spans):
        known = spread(segment.state)
        made.append(Valued(mean(known), end(k), tuple(known)))
    return made


def mean(numbers: Sequence[float]) -> float:
    """The mean; exactly the number where all are equal; NaN without any."""
    if not numbers:
        return math.nan
    return numbers[0] if min(numbers) == max(numbers) else math.fsum(numbers) / len(numbers)
