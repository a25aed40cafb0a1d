"""ReST-MCTS*: a tree search finds successes, and the shortest ways to them are imitated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from searchgym.rl import (
    AdvantageEstimator,
    Batch,
    Coef,
    Estimate,
    Floats,
    Group,
    Mcts,
    Scored,
    SearchNode,
    Signal,
    Signals,
    TurnTree,
    Workers,
    in_columns,
    total,
)
from searchgym.rl.ops import State, segments

from .turn_heads import KeepsHead, KeepsStates, TreeStates, TurnHead


class ValuedMcts(KeepsHead, KeepsStates, Mcts):
    """:class:`Mcts` in which a state at which an episode goes on is worth (1 - α) V + α Q, where V
    is a value model's and Q the mean return of the episodes through it; an ended one Q (ReST-MCTS*,
    Zhang et al., arXiv 2406.03816, whose search mixes what a simulation found into its value model
    so).

    V is a head on the hidden state from which the next turn's first token was drawn. It begins at 0
    and learns along: after each step it descends on (V - v)², where v is the quality of the turn
    before (signal ``turn_quality``) and 0 before the first one. The paper's is a language model of
    its own, fitted to the same v.

    Args:
        size, width, explore: As :class:`Mcts`.
        alpha: α, the share of the returns (ours: .5); 1 is :class:`Mcts`.
        lr, epochs: AdamW learning rate of the head, and its steps after each update (ours).
    """

    registered = "rollout:valued_mcts"
    requires = frozenset({"turn_quality"})

    def __init__(
        self, size: int = 8, width: int = 2, explore: float = math.sqrt(2), alpha: float = 0.5,
        lr: float = 0.02, epochs: int = 20,
    ) -> None:  # fmt: skip
        super().__init__(size, width, explore)
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is in [0, 1], got {alpha}")
        self.alpha = float(alpha)
        self.head = TurnHead(lr, epochs)
        self._states = TreeStates()

    def judge(self, tree: TurnTree, root: SearchNode) -> None:
        self._states.look(tree)
        waiting = list(root.children)
        while waiting:
            node = waiting.pop()
            place, turns = node.state
            states = self._states.of(tree.branches[place].episode.config.episode_id)
            if not node.ended and turns in states:  # not where the infrastructure broke it
                node.expected = self.head.value(states[turns])
            waiting += node.children

    def worth(self, node: SearchNode) -> float:
        if node.expected is None:
            return node.value
        return (1 - self.alpha) * node.expected + self.alpha * node.value

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Move the head towards the qualities that were measured."""
        states: list[Tensor] = []
        quality: list[float] = []
        for s in scored:
            measured = s.signals["turn_quality"]
            for i in s.training:
                own = self._states.of(s.group.members[i].episode.config.episode_id)
                for turn, state in sorted(own.items()):
                    goal = float(measured[i, turn - 1]) if turn else 0.0
                    if not math.isnan(goal):
                        states.append(state)
                        quality.append(goal)
        self._states.clear()
        if not states:
            return {}
        self.head.value(states[0])  # has a width from now on
        here, goals = torch.stack(states), torch.tensor(quality)
        return {
            "valued_mcts/loss": self.head.fit(lambda head: (here @ head - goals).square().mean())
        }


Step = tuple[int, int]
"""(Member that wrote it, turn)."""


def qualities(errors: Sequence[float], remaining: Sequence[int]) -> list[float]:
    """Quality values v_1, v_2, … of a path's steps (ReST-MCTS*, arXiv 2406.03816): v_0 = 0,
    v_k = max(0, v_{k-1} + w_k) with w_k = (1 - v_{k-1}) (1 - 2 e_k) / (m_k + 1).

    Args:
        errors: e_k in [0, 1], how wrong a step is.
        remaining: m_k, the steps that are left after it.
    """
    value, made = 0.0, []
    for error, left in zip(errors, remaining, strict=True):
        value = max(0.0, value + (1 - value) * (1 - 2 * error) / (left + 1))
        made.append(value)
    return made


class StepQuality(Signal):
    """``turn_quality``: (M, K) the quality v_k of each turn of a member's path
    (:func:`qualities`), its parents' turns included, with the tree for a judge: e_k = 0 if some
    leaf below the turn is a success, else 1, and m_k the turns from there to the nearest success,
    or else to the nearest end. It rises to 1 along a successful path, the faster the fewer turns it
    takes. NaN for turns below which everything broke.

    Args:
        solved: Return of a success.
    """

    registered = "signal:quality"
    provides = frozenset({"turn_quality"})

    def __init__(self, solved: float = 0.5) -> None:
        self.solved = float(solved)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"turn_quality": self._measured(group)} for group in groups]

    def _measured(self, group: Group) -> Floats:
        paths = [steps(group, i) for i in range(len(group.members))]
        ends: dict[Step, list[tuple[bool, int]]] = {}
        for way, member in zip(paths, group.members, strict=True):
            if not member.broken and member.purpose != "baseline":
                for step in way:
                    end = (total(member) < self.solved, len(way))  # successes are the smaller
                    ends.setdefault(step, []).append(end)
        return in_columns([self._along(way, ends) for way in paths])

    def _along(self, way: list[Step], ends: dict[Step, list[tuple[bool, int]]]) -> list[float]:
        nearest = [min(ends[step]) for step in way if step in ends]
        left = [turns - number for number, (_, turns) in enumerate(nearest, start=1)]
        by_step = qualities([float(failed) for failed, _ in nearest], left)
        return [*by_step, *[np.nan] * (len(way) - len(by_step))]


def steps(group: Group, place: int) -> list[Step]:
    """All steps of a member's path; those of a parent that was dropped are taken for its own."""
    index = {group.place(i): i for i in range(len(group.members))}
    member = group.members[place]
    own = [(place, turn) for turn in range(member.since, len(member.episode.turns))]
    if member.parent is None or member.since == 0:
        return own
    if member.parent not in index:
        return [*((place, turn) for turn in range(member.since)), *own]
    return [*steps(group, index[member.parent])[: member.since], *own]


class Selected(AdvantageEstimator):
    """1 for every trajectory, and a mask: only turns at which the quality rises are trained on, for
    a success lies below those alone; and where several turns begin in one state, only those of the
    highest quality. A supervised loss then imitates the paths that the search selected
    (ReST-MCTS*, arXiv 2406.03816), each turn once, also one whose writer went wrong later.

    Args:
        signal: (M, K) quality of each turn.
        best: False keeps all siblings at which it rises.
    """

    registered = "advantage:selected"
    invariant = frozenset({"shift", "scale"})

    def __init__(self, signal: str = "turn_quality", best: bool = True) -> None:
        self.signal, self.best = signal, best
        self.requires = frozenset({signal})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        values = batch.signal(self.signal)
        before = torch.nn.functional.pad(values, (1, 0))[:, :-1]
        last = batch.turn.clamp_max(values.shape[1] - 1)
        mask = batch.mask & (values > before).gather(1, last) & ~batch.reward.isnan()[:, None]
        if self.best:
            mask = mask & ~self._beaten(batch)
        ones = torch.where(batch.reward.isnan(), 0.0, torch.ones_like(batch.reward))
        return Estimate(ones, mask=mask)

    def _beaten(self, batch: Batch) -> torch.Tensor:
        """(N, T) bool: tokens of turns that a sibling surpasses."""
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        known = torch.nan_to_num(batch.signal(self.signal), nan=-1.0).tolist()
        first = [known[s.line][min(s.first, len(known[s.line]) - 1)] for s in spans]
        most: dict[State, float] = {}
        for segment, value in zip(spans, first, strict=True):
            most[segment.state] = max(value, most.get(segment.state, value))
        made = torch.zeros_like(batch.mask)
        for segment, value in zip(spans, first, strict=True):
            if value < most[segment.state]:
                made[segment.line] |= batch.turn[segment.line] == segment.first
        return made
