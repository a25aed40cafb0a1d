"""Monte-Carlo tree search: the most promising state is written on anew, and what comes of it is
backed up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ops.branches import State
from .branching import Branching, TurnTree, returns

QUESTION: State = (-1, 0)
"""The state before the first turn."""


@dataclass(slots=True)
class SearchNode:
    """A state of the search: the place of the branch that wrote its last turn, and its turns."""

    state: State
    visits: int = 0
    """Finished episodes that have gone through it."""
    total: float = 0.0
    """The sum of their returns."""
    children: list[SearchNode] = field(default_factory=list)
    ended: bool = False
    """True if the episode ends here."""
    expected: float | None = None
    """Value by a model; None: it was not asked."""

    @property
    def value(self) -> float:
        """The mean return of the episodes that have gone through it."""
        return self.total / self.visits


class Mcts(Branching):
    """Monte-Carlo tree search over turns, until there are ``size`` leaves. It begins with ``width``
    chains. Each round walks from the question to the child of the largest

    ``Q + explore · √(ln N(parent) / N)``

    and stops at the first state with fewer than ``width`` children; the missing ones begin there
    and are played on to their ends, and every state on their way counts them: N is the number of
    episodes through it, Q their mean return. The turn that was written after a state already is
    its first child. States below which nothing can begin are passed over; where none is left,
    another chain begins with the question, so that a group always has ``size`` members.

    This is the search of PROPA (Jiang et al., arXiv 2511.10279), and that of ReST-MCTS* but for its
    value model (:class:`~searchgym.rl.rollouts.valued_mcts.ValuedMcts`). Rounds follow each other,
    all groups' in one batch.

    Args:
        size: Leaves of a group: exactly so many.
        width: Children of a state.
        explore: C (ours: √2, UCB1's for returns within [0, 1]).
    """

    registered = "mcts"

    def __init__(self, size: int = 8, width: int = 2, explore: float = math.sqrt(2)) -> None:
        super().__init__(size)
        if not 2 <= width <= size or not 0 <= explore < math.inf:
            raise ValueError(
                f"width is between 2 and size = {size}, explore at least 0; got {width}, {explore}"
            )
        self.width, self.explore = width, float(explore)

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.width):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        room = self.size - len(tree.branches)
        if tree.going or not room:
            return
        root = backed_up(tree)
        self.judge(tree, root)
        chosen = self.select(root)
        if chosen is None:
            tree.chain()
            return
        for _ in range(min(self.width - len(chosen.children), room)):
            tree.fork(*chosen.state)

    def judge(self, tree: TurnTree, root: SearchNode) -> None:
        """Revise the values of the states below the question: here they stay as they are."""

    def select(self, root: SearchNode) -> SearchNode | None:
        """The state that is expanded next; None if nothing can be."""
        at = root
        while not self._expandable(at):
            kids = [kid for kid in at.children if self._left(kid)]
            if not kids:
                return None
            parent = at
            at = max(kids, key=lambda kid: self.bound(kid, parent))
        return at

    def bound(self, node: SearchNode, parent: SearchNode) -> float:
        """The upper confidence bound of a state's value."""
        return self.worth(node) + self.explore * math.sqrt(math.log(parent.visits) / node.visits)

    def worth(self, node: SearchNode) -> float:
        """The value of a state: Q."""
        return node.value

    def _expandable(self, node: SearchNode) -> bool:
        return node.state != QUESTION and not node.ended and len(node.children) < self.width

    def _left(self, node: SearchNode) -> bool:
        """True if something can begin at a state or below it."""
        return self._expandable(node) or any(map(self._left, node.children))


def backed_up(tree: TurnTree) -> SearchNode:
    """The question's node, and below it those of all episodes that have ended and that the
    infrastructure did not break."""
    root = SearchNode(QUESTION)
    nodes = {QUESTION: root}
    for place, earned in returns(tree).items():
        at = root
        for state in (QUESTION, *path(tree, place)):
            if state not in nodes:
                nodes[state] = SearchNode(state)
                at.children.append(nodes[state])
            at = nodes[state]
            at.visits += 1
            at.total += earned
        at.ended = True
    return root


def path(tree: TurnTree, place: int) -> Iterator[State]:
    """The states after each turn of a branch, its parents' included."""
    branch = tree.branches[place]
    if branch.parent is not None:
        yield from (state for state in path(tree, branch.parent) if state[1] <= branch.since)
    yield from ((place, turn) for turn in range(branch.since + 1, branch.turns + 1))
