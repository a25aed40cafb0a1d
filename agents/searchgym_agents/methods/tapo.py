"""TAPO's penalty on calls beyond a limit."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome


@dataclass(frozen=True)
class ExcessCalls:
    """Charge each query and tool call beyond ``most``: -``cost`` · max(0, n - ``most``).

    TAPO modifies DAPO for tool use; only its abstract was read, so this form and both numbers are
    ours. With at most ``most`` calls it is DAPO's reward: use it beside the answer's,
    with the recipe ``dapo``.
    """

    registered = "reward:excess_calls"
    systems = ("TAPO",)

    most: int = 4
    cost: float = 0.1

    def final(self, outcome: Outcome) -> float:
        return -self.cost * max(0, outcome.searches - self.most)
