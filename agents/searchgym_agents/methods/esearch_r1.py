"""ESearch-R1's costs of searching, reading, asking and remembering."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym import Access, Call, Search
from searchgym.rewards import Outcome


@dataclass(frozen=True)
class Costs:
    """Charge each turn for its calls, by kind; use it beside a reward of the answer.

    A turn earns -``scale`` · cost. A query costs ``search``, an opened page ``page`` per thousand
    words shown, asking the user (the tool ``ask_user``) ``ask`` · (1 + ``fatigue`` · times asked
    before), reading notes (the tool ``memory``) ``memory``, any other tool ``tool`` (HC-GRPO of
    ESearch-R1, arXiv 2512.18571: costs by kind, with fatigue of the user and memory the cheapest).
    All numbers are ours: the paper's were not read. A page stands for the paper's way through a
    house, whose length is the distance.
    """

    registered = "reward:costs"
    systems = ("ESearch-R1 (HC-GRPO)",)

    scale: float = 0.1
    search: float = 0.5
    page: float = 1.0
    ask: float = 0.5
    fatigue: float = 0.5
    memory: float = 0.05
    tool: float = 0.5

    def turn(self, outcome: Outcome) -> float:
        return -self.scale * self.cost(outcome) if outcome.calls else 0.0

    def cost(self, outcome: Outcome) -> float:
        """Return the cost of the latest turn, unscaled."""
        action = outcome.action
        if isinstance(action, Search):
            return self.search * len(action.queries)
        if isinstance(action, Access):
            return self.page * len(outcome.shown.split()) / 1000
        if isinstance(action, Call) and action.tool == "ask_user":
            before = sum(
                isinstance(t.action, Call) and t.action.tool == "ask_user" and bool(t.calls)
                for t in outcome.turns[:-1]
            )
            return self.ask * (1.0 + self.fatigue * before)
        if isinstance(action, Call) and action.tool == "memory":
            return self.memory
        return self.tool
