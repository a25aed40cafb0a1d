"""DeepResearcher's F1 with a penalty for form."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome, well_formed
from searchgym.text import answer_words, normalise_answer


@dataclass(frozen=True)
class DeepResearcher:
    """Pay the F1 of the sets of words, and charge an episode out of form.

    ``malformed`` for an episode with a turn that is no action, or without an answer (Zheng et al.,
    DeepResearcher, arXiv 2504.03160).
    """

    registered = "reward:deep_researcher"
    systems = ("DeepResearcher",)

    malformed: float = -1.0

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome):
            return self.malformed
        if outcome.em == 1.0 or outcome.task.should_abstain:  # a refusal is right or wrong
            return outcome.em
        return max((set_f1(outcome.answer, answer) for answer in outcome.answers), default=0.0)


def set_f1(one: str, other: str) -> float:
    """F1 of the sets of two texts' normalised words."""
    a, b = (set(answer_words(normalise_answer(text))) for text in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a and b else 0.0
