"""SLATE: several candidates for each single turn, scored at once; one goes on."""

from __future__ import annotations

import numpy as np

from searchgym import Answer, Episode
from searchgym.rl import Branching, OfMembers, Played, TurnTree
from searchgym.seeding import stream
from searchgym.types import Invalid


class OneStep(Branching):
    """``size`` candidates for each turn from one prefix; one is drawn with odds softmax(A / η), A
    being its score compared with the others' (:func:`step_score`), and goes on; the
    others stop there and are trained on as they are (SLATE, arXiv 2602.23440). A group has ``size``
    members, and ``size`` - 1 more for each further turn.

    Args:
        size: Candidates of a turn (paper: 5).
        temperature: η (paper: .7); 0: the best goes on.
        bonus, budget: Of the score, as in the signal ``step_score``.
    """

    registered = "rollout:one_step"
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


def step_score(episode: Episode, turn: int, bonus: float = 0.1, budget: int = 4) -> float:
    """A turn's score. Of a search or another call: 1 if it showed a gold passage that was not seen
    before, 0 if it did not, -1 if it was no valid action. Of an answer: 1 if it is an exact match,
    0 if it shares a word with a gold one (F1 > 0), else -1; and ``bonus`` · (B - t) / B for the
    t-th turn, t = 1, …, B = ``budget``, less than 0 beyond."""
    taken = episode.turns[turn]
    if isinstance(taken.action, Invalid):
        return -1.0
    if not isinstance(taken.action, Answer) or episode.phase != "done":
        return float(taken.reward_parts.get("evidence", 0.0) > 0)
    parts = episode.parts or {}
    score = 1.0 if parts.get("em", 0.0) >= 1 else 0.0 if parts.get("f1", 0.0) > 0 else -1.0
    return score + bonus * (budget - turn - 1) / budget


class StepScore(OfMembers):
    """``turn_score``: (M, K) :func:`step_score` of each turn, which stands where SLATE (arXiv
    2602.23440) asks a judge: the world knows which passages are needed. Thoughts are not judged.

    Args:
        bonus: Paid for answering early (paper: .1).
        budget: Turns that an early answer is held to (paper: 4).
    """

    registered = "signal:step_score"
    provides = frozenset({"turn_score"})

    def __init__(self, bonus: float = 0.1, budget: int = 4) -> None:
        if budget < 1:
            raise ValueError(f"budget must be at least 1, got {budget}")
        self.bonus, self.budget = float(bonus), budget

    def of(self, member: Played) -> list[float]:
        turns = range(len(member.episode.turns))
        return [step_score(member.episode, k, self.bonus, self.budget) for k in turns]
