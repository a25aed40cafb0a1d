"""Signal that learns: what each turn contributes to the outcome (SPA-RL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...types import Invalid
from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Played, Scored, Signals, Workers


class TurnProgress(Slot):
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

    registered = "progress"
    provides = frozenset({"turn_progress"})

    def __init__(
        self, alpha: float = 1.0, beta: float = 0.5, lr: float = 0.02, epochs: int = 20
    ) -> None:
        if not lr > 0 or epochs < 1:
            raise ValueError(f"lr is positive and epochs at least 1, got {lr} and {epochs}")
        self.alpha, self.beta, self.lr, self.epochs = float(alpha), float(beta), float(lr), epochs
        self.weight: Tensor | None = None
        """(H + 1,) the head, its constant last; None before the first group was seen."""
        self._states: dict[str, list[Tensor]] = {}
        """States of the turns of this step's episodes, for ``fit``."""

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"turn_progress": self._measured(group, workers)} for group in groups]

    def _measured(self, group: Group, workers: Workers) -> Floats:
        turns = max((len(m.episode.turns) for m in group.members), default=0)
        made = np.full((len(group.members), turns), np.nan)
        for i, (member, found) in enumerate(
            zip(group.members, _states(group, workers), strict=True)
        ):
            self._states[member.episode.config.episode_id] = [state for _, state in found]
            for number, state in found:
                if self.weight is None:
                    self.weight = torch.zeros(len(state))
                valid = not isinstance(member.episode.turns[number].action, Invalid)
                made[i, number] = self.alpha * float(state @ self.weight) + self.beta * valid
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
        if not sums or self.weight is None:
            return {}
        self._states = {}
        features, goal = torch.stack(sums), torch.tensor(outcomes)
        with torch.enable_grad():
            head = self.weight.clone().requires_grad_()
            optimizer = torch.optim.AdamW([head], lr=self.lr, weight_decay=0.0)
            for _ in range(self.epochs):
                loss = (features @ head - goal).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.weight = head.detach()
        return {"progress/loss": float(loss.detach())}

    def state_dict(self) -> dict[str, Any]:
        return {"width": 0 if self.weight is None else len(self.weight)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.weight = torch.zeros(int(state["width"])) if state["width"] else None

    def tensors(self) -> Mapping[str, Tensor]:
        return {} if self.weight is None else {"head": self.weight}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if "head" in tensors:
            self.weight = tensors["head"].clone()


def _states(group: Group, workers: Workers) -> list[list[tuple[int, Tensor]]]:
    """Pairs (turn, its last token's state and a 1) of each member, in order."""
    members: Sequence[Played] = group.members
    rows = [row for m in members for row in m.rows]
    if not rows:
        return [[] for _ in members]
    with torch.no_grad():
        hidden = workers.lm.score(rows, measures=["hidden"]).measures["hidden"].cpu().float()
    found: list[list[tuple[int, Tensor]]] = []
    at = 0
    for member in members:
        own: dict[int, Tensor] = {}
        for row in member.rows:
            for k, uid in enumerate(row.turn_uids):
                last = int(np.flatnonzero(row.turn_of_token == k)[-1])
                state = hidden[at, last] / hidden.shape[-1] ** 0.5
                own[int(uid.rpartition("/")[2])] = torch.cat([state, torch.ones(1)])
            at += 1
        found.append(sorted(own.items(), key=lambda item: item[0]))
    return found
