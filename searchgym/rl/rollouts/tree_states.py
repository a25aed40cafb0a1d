"""Hidden states of a tree's turns, for rollouts that ask a head of them what to expect."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..slots.records import Played
from ..turn_head import turn_states
from .branching import Branching, TurnTree


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
