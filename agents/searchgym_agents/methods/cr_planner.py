"""CR-Planner's rollout: a tree search teaches a critic, which then chooses among several turns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from searchgym.rl import Group, Mcts, Scored, SearchNode, TaskPlan, TurnTree, Workers, backed_up
from searchgym.rl.ops import State

from .turn_heads import KeepsHead, TurnHead, turn_states


class CriticChosen(KeepsHead, Mcts):
    """A tree search of ``size`` - ``chosen`` leaves (:class:`~.mcts.Mcts`), and ``chosen`` chains,
    each turn of which is the one of ``candidates`` from one prefix that a critic finds best; the
    others stop there (CR-Planner, Li et al., arXiv 2410.01428). All are members: candidates for the
    last turn have ended like the chosen one.

    The critic is a head on the hidden state at the end of a turn, before anything is found: it
    says how good a step is without taking it. It begins at 0, where any candidate is as good, and
    learns along from sibling turns w, l of the search whose values differ: -log σ(V(w) - V(l)).

    Args:
        size: Leaves of a group, the chosen chains among them.
        chosen: Chains whose turns the critic chooses.
        candidates: Turns that it chooses among.
        width, explore: Of the search.
        lr, epochs: AdamW learning rate of the critic, and its steps after each update.
    """

    registered = "rollout:critic_chosen"
    truncates = True

    def __init__(
        self, size: int = 8, chosen: int = 2, candidates: int = 4, width: int = 2,
        explore: float = math.sqrt(2), lr: float = 0.02, epochs: int = 20,
    ) -> None:  # fmt: skip
        if chosen < 1 or candidates < 2:
            raise ValueError(
                f"chosen is at least 1 and candidates at least 2, got {chosen}, {candidates}"
            )
        if size - chosen < 2:
            raise ValueError(f"size - chosen must be at least 2 to search, got {size} - {chosen}")
        super().__init__(size - chosen, width, explore)
        self.chosen, self.candidates = chosen, candidates
        self.head = TurnHead(lr, epochs)
        self._pairs: list[Tensor] = []
        """(H + 1,) states of better siblings less those of worse ones, of this step's trees."""

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        self._pairs = []
        return super().collect(plans, workers)

    def grow(self, tree: TurnTree) -> None:
        if not tree.rounds:
            super().grow(tree)
            if tree.going:
                return
            tree.rounds = 1
            self._pairs += self._compared(tree)
            tree.moved()  # of these nothing is chosen
            for _ in range(self.chosen):
                self._offer(tree, tree.chain(), 0)
            return
        asked: dict[int, list[int]] = {}
        for place in tree.moved():
            asked.setdefault(tree.branches[place].root, []).append(place)
        for places in asked.values():
            best = self._best(tree, places)
            for place in places:
                tree.branches[place].stopped = place != best
            if best is not None and tree.branches[best].going:
                self._offer(tree, best, tree.branches[best].turns)

    def _offer(self, tree: TurnTree, place: int, at: int) -> None:
        for _ in range(self.candidates - 1):
            tree.fork(place, at)

    def _best(self, tree: TurnTree, places: Sequence[int]) -> int | None:
        """The place whose last turn the critic finds best; None if the infrastructure broke all."""
        sound = [place for place in places if not tree.branches[place].broken]
        states = self._states(tree, sound)

        def worth(place: int) -> float:
            state = states.get((place, tree.branches[place].turns))
            # a turn for which there was no room has no tokens
            return -math.inf if state is None else self.head.value(state)

        return max(sound, key=worth, default=None)

    def _compared(self, tree: TurnTree) -> Iterator[Tensor]:
        """Yield differences of siblings' states, the one of the higher value first."""
        nodes = [backed_up(tree)]
        pairs: list[tuple[SearchNode, SearchNode]] = []
        while nodes:
            children = nodes.pop().children
            nodes += children
            pairs += [(a, b) for a in children for b in children if a.value > b.value]
        states = self._states(tree, sorted({n.state[0] for pair in pairs for n in pair}))
        for better, worse in pairs:
            if better.state in states and worse.state in states:
                yield states[better.state] - states[worse.state]

    def _states(self, tree: TurnTree, places: Sequence[int]) -> dict[State, Tensor]:
        """(Place, turns so far) → state at the end of that turn, of the places' own turns."""
        policy = tree.workers.policy
        rows = [policy.rows(tree.branches[i].episode, since=tree.branches[i].since) for i in places]
        read = iter(turn_states([r for own in rows for r in own], tree.workers.lm, "last"))
        return {
            (place, turn + 1): state
            for place, own in zip(places, rows, strict=True)
            for _ in own
            for turn, state in next(read).items()
        }

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Move the critic towards the order of the siblings that were compared."""
        pairs, self._pairs = self._pairs, []
        if not pairs:
            return {}
        apart = torch.stack(pairs)
        self.head.value(apart[0])  # has a width from now on

        def loss(head: Tensor) -> Tensor:
            return torch.nn.functional.softplus(-(apart @ head)).mean()

        return {"critic_chosen/loss": self.head.fit(loss)}
