"""Signal: which step of a group's graph each turn was."""

from __future__ import annotations

from ...core.episode import Episode
from .turns import Anchor


class Edge(Anchor):
    """``edge``: (M, K) a number for what a turn was: the state in which it began, what it did
    (its parsed action, so that thoughts do not matter) and the state that it led to. Within a group
    equal steps have equal numbers (SALT, arXiv 2510.20022).

    Args:
        of: A state is what the environment wrote since the last turn (``"news"``), or all that is
            visible (``"context"``); SALT's window of the last steps lies between the two.
    """

    registered = "edge"
    by_turn = frozenset({"edge"})
    provides = frozenset({"edge"})

    def _keys(self, episode: Episode) -> list[tuple[object, ...]]:
        states = [*self._states(episode), ()]
        return [
            (states[k], repr(turn.action), states[k + 1]) for k, turn in enumerate(episode.turns)
        ]
