"""A linear head on the policy's hidden states at its turns: for parts that learn along.

Hidden states of a tree's turns, for rollouts that ask a head of them what to expect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from searchgym import TrainableLM
from searchgym.policies.rows import Bools, TrainingRow
from searchgym.rl import Branching, Played, TurnTree


class TurnHead:
    """w·h + b, which begins at 0.

    Args:
        lr: AdamW learning rate.
        epochs: Steps of gradient descent of a fit.
    """

    def __init__(self, lr: float = 0.02, epochs: int = 20) -> None:
        if not lr > 0 or epochs < 1:
            raise ValueError(f"lr is positive and epochs at least 1, got {lr} and {epochs}")
        self.lr, self.epochs = float(lr), epochs
        self.weight: Tensor | None = None
        """(H + 1,) its constant last; None before the first state was seen."""

    def value(self, state: Tensor) -> float:
        """The head's value of an (H + 1,) state (:func:`turn_states`)."""
        if self.weight is None:
            self.weight = torch.zeros(len(state))
        return float(state @ self.weight)

    def fit(self, loss: Callable[[Tensor], Tensor]) -> float:
        """Descend on a loss of the weights; returns its last value.

        Raises:
            ValueError: no state was seen before.
        """
        if self.weight is None:
            raise ValueError("the head has no width yet: ask it for a state's value first")
        with torch.enable_grad():
            head = self.weight.clone().requires_grad_()
            optimizer = torch.optim.AdamW([head], lr=self.lr, weight_decay=0.0)
            for _ in range(self.epochs):
                value = loss(head)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        self.weight = head.detach()
        return float(value.detach())

    def state_dict(self) -> dict[str, Any]:
        return {"width": 0 if self.weight is None else len(self.weight)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.weight = torch.zeros(int(state["width"])) if state["width"] else None

    def tensors(self) -> Mapping[str, Tensor]:
        return {} if self.weight is None else {"head": self.weight}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if "head" in tensors:
            self.weight = tensors["head"].clone()


class KeepsHead:
    """Memory of a slot that has learnt nothing but a head: what a checkpoint keeps of it."""

    head: TurnHead

    def state_dict(self) -> dict[str, Any]:
        return self.head.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.head.load_state_dict(state)

    def tensors(self) -> Mapping[str, Tensor]:
        return self.head.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.head.load_tensors(tensors)


def turn_states(
    rows: Sequence[TrainingRow], lm: TrainableLM, which: Literal["first", "last"]
) -> list[dict[int, Tensor]]:
    """(H + 1,) state of each turn in each row, by the turn's number: the hidden state from which
    its first or last token was drawn, divided by the root of its width, so that one rate fits all
    models, and a 1."""
    if not rows:
        return []
    with torch.no_grad():
        hidden = lm.score(rows, measures=["hidden"]).measures["hidden"].cpu().float()
    place = 0 if which == "first" else -1
    states: list[dict[int, Tensor]] = []
    for line, row in zip(hidden, rows, strict=True):
        states.append({})
        for number, mine in turns_in(row):
            state = line[int(np.flatnonzero(mine)[place])] / line.shape[-1] ** 0.5
            states[-1][number] = torch.cat([state, torch.ones(1)])
    return states


def turns_in(row: TrainingRow) -> Iterator[tuple[int, Bools]]:
    """Yield the number of each of a row's turns, and (T,) which of its tokens are that turn's."""
    for k, uid in enumerate(row.turn_uids):
        yield int(uid.rpartition("/")[2]), row.turn_of_token == k


class TreeStates:
    """(H + 1,) states from which each turn's first token was drawn (:func:`turn_states`), of the
    branches of a step's trees."""

    def __init__(self) -> None:
        self._by_episode: dict[str, dict[int, Tensor]] = {}

    def look(self, tree: TurnTree) -> None:
        """Read the states of branches that have ended since it was last done, in one pass."""
        policy = tree.workers.policy
        new = [b for b in tree.branches if b.episode.config.episode_id not in self._by_episode]
        rows = [policy.rows(b.episode, since=b.since) for b in new]
        by_row = iter(turn_states([r for own in rows for r in own], tree.workers.lm, "first"))
        for branch, own in zip(new, rows, strict=True):
            states: dict[int, Tensor] = {}
            for _ in own:
                states |= next(by_row)
            self._by_episode[branch.episode.config.episode_id] = states

    def of(self, episode_id: str) -> Mapping[int, Tensor]:
        """Return turn → state, of an episode's own turns alone; empty if it was not looked at."""
        return self._by_episode.get(episode_id, {})

    def clear(self) -> None:
        """Forget all of them, once a step is over."""
        self._by_episode = {}


class KeepsStates(Branching):
    """A rollout that branches and keeps the states of its trees until it has learnt from them."""

    _states: TreeStates

    def _members(self, tree: TurnTree) -> tuple[Played, ...]:
        self._states.look(tree)  # those of the last branches, which no choice has asked for
        return super()._members(tree)
