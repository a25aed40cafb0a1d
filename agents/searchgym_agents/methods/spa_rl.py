"""Signal that learns: what each turn contributes to the outcome (SPA-RL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from searchgym.rl import Floats, Group, Scored, Signal, Signals, Workers
from searchgym.types import Invalid

from .turn_heads import KeepsHead, TurnHead, turn_states


class TurnProgress(KeepsHead, Signal):
    """``turn_progress``: (M, K) ``alpha`` · c_k + ``beta`` · [the turn was a valid action], with
    c_k = w·h_k + b of the policy's hidden state h_k at the turn's last token; NaN for a turn of
    which no token is left (SPA-RL, Wang et al., arXiv 2505.20732).

    ``fit`` moves w and b so that the c_k of an episode add up to its outcome: after each update,
    ``epochs`` steps of gradient descent on the mean of (Σ_k c_k - R)². The head begins at 0 and
    states are divided by the root of their width, so that one rate fits all models. The paper
    trains a model of its own beforehand, on explored trajectories; here the head learns along, on
    states of the policy (ours). The released WebShop script overwrites c_k, which is not the
    paper's method.

    Args:
        alpha, beta: Weights of progress and of valid actions (paper: 1 and .5).
        lr: AdamW learning rate of the head.
    """

    registered = "signal:progress"
    provides = frozenset({"turn_progress"})

    def __init__(
        self, alpha: float = 1.0, beta: float = 0.5, lr: float = 0.02, epochs: int = 20
    ) -> None:
        self.alpha, self.beta = float(alpha), float(beta)
        self.head = TurnHead(lr, epochs)
        self._states: dict[str, list[Tensor]] = {}
        """States of the turns of this step's episodes, for ``fit``."""

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"turn_progress": self._measured(group, workers)} for group in groups]

    def _measured(self, group: Group, workers: Workers) -> Floats:
        turns = max((len(m.episode.turns) for m in group.members), default=0)
        made = np.full((len(group.members), turns), np.nan)
        for i, (member, states) in enumerate(
            zip(group.members, _states(group, workers), strict=True)
        ):
            self._states[member.episode.config.episode_id] = [state for _, state in states]
            for number, state in states:
                valid = not isinstance(member.episode.turns[number].action, Invalid)
                made[i, number] = self.alpha * self.head.value(state) + self.beta * valid
        return made

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Move the head towards the outcomes of the episodes that were trained on."""
        sums, outcomes = [], []
        for s in scored:
            for i in s.training:
                states = self._states.get(s.group.members[i].episode.config.episode_id)
                if states:
                    sums.append(torch.stack(states).sum(0))
                    outcomes.append(float(s.rewards.outcome[i]))
        if not sums:
            return {}
        self._states = {}
        features, goal = torch.stack(sums), torch.tensor(outcomes)
        loss = self.head.fit(lambda head: (features @ head - goal).square().mean())
        return {"progress/loss": loss}


def _states(group: Group, workers: Workers) -> list[list[tuple[int, Tensor]]]:
    """Pairs (turn, its last token's state) of each member, in order."""
    by_row = iter(turn_states([r for m in group.members for r in m.rows], workers.lm, "last"))
    states: list[list[tuple[int, Tensor]]] = []
    for member in group.members:
        own: dict[int, Tensor] = {}
        for _ in member.rows:
            own |= next(by_row)
        states.append(sorted(own.items(), key=lambda item: item[0]))
    return states
