"""ReST-MCTS*'s rollout: a tree search by the returns below a state and by a value model of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..slots.records import Scored
from ..turn_head import KeepsHead, TurnHead
from .branching import TurnTree
from .mcts import Mcts, SearchNode
from .tree_states import KeepsStates, TreeStates


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

    registered = "valued_mcts"
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
