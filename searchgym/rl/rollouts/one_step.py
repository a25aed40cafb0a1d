"""SLATE's rollout: at each turn several candidates for that turn alone, one of which goes on."""

from __future__ import annotations

import numpy as np

from ...seeding import stream
from ..signals.steps import step_score
from .branching import Branching, TurnTree


class OneStep(Branching):
    """``size`` candidates for each turn from one prefix; one is drawn with odds softmax(A / η), A
    being its score compared with the others' (``signals.steps.step_score``), and goes on; the
    others stop there and are trained on as they are (SLATE, arXiv 2602.23440). A group has ``size``
    members, and ``size`` - 1 more for each further turn.

    Args:
        size: Candidates of a turn (paper: 5).
        temperature: η (paper: .7); 0: the best goes on.
        bonus, budget: Of the score, as in the signal ``step_score``.
    """

    registered = "one_step"
    truncates = True

    def __init__(
        self, size: int = 5, temperature: float = 0.7, bonus: float = 0.1, budget: int = 4
    ) -> None:
        super().__init__(size)
        if temperature < 0 or budget < 1:
            raise ValueError(
                f"temperature is at least 0 and budget at least 1, got {temperature}, {budget}"
            )
        self.temperature, self.bonus, self.budget = float(temperature), float(bonus), budget

    def plant(self, tree: TurnTree) -> None:
        self._candidates(tree, tree.chain(), 0)

    def grow(self, tree: TurnTree) -> None:
        if not (asked := tree.moved()):
            return
        sound = [i for i in asked if not tree.branches[i].broken]
        chosen = sound[self._draw(tree, sound)] if sound else None
        for place in asked:
            tree.branches[place].stopped = place != chosen
        if chosen is not None and tree.branches[chosen].going:
            self._candidates(tree, chosen, tree.branches[chosen].turns)

    def _candidates(self, tree: TurnTree, place: int, at: int) -> None:
        for _ in range(self.size - 1):
            tree.fork(place, at)

    def _draw(self, tree: TurnTree, places: list[int]) -> int:
        """Draw the candidate that goes on."""
        turn = tree.branches[places[0]].turns - 1
        scores = np.array(
            [step_score(tree.branches[i].episode, turn, self.bonus, self.budget) for i in places]
        )
        if self.temperature == 0:
            return int(scores.argmax())
        spread = scores.std(ddof=1) if len(scores) > 1 else 0.0
        better = (scores - scores.mean()) / (spread + 1e-6) / self.temperature
        noise = stream(tree.plan.key, "goes on", turn).gumbel(size=len(places))
        return int((better + noise).argmax())
