"""ReSeek's reward of judgements."""

from __future__ import annotations

from dataclasses import dataclass

from searchgym.rewards import Outcome, new_evidence
from searchgym.types import Judge


@dataclass(frozen=True)
class ReSeek:
    """Pay a judgement of the newest results that is right, and charge one that is wrong.

    Right is "good" exactly where the results showed a gold passage for the first time: ``match``,
    else -``mismatch`` (ReSeek, arXiv 2510.00568, R_judge). Label and values are ours: the released
    code pays .1 for "good" before a right answer and charges .05 before a wrong one, half of it if
    a reranker finds the results like the gold answer; "bad" earns .02 where it does not, and is
    charged .05 where it does. A task without gold passages pays nothing.
    """

    registered = "reward:reseek"
    systems = ("ReSeek",)

    match: float = 0.1
    mismatch: float = 0.1

    def turn(self, outcome: Outcome) -> float:
        action = outcome.action
        if not isinstance(action, Judge) or not outcome.evidence_total:
            return 0.0
        judged = _newest(outcome)
        if judged is None:
            return 0.0
        showed_new = new_evidence(outcome)[judged] > 0
        return self.match if action.useful == showed_new else -self.mismatch


def _newest(outcome: Outcome) -> int | None:
    """Number of the turn whose results the latest judgement is about: the newest of its context
    that no judgement hid."""
    *before, now = outcome.turns
    visible: list[int] = []
    for turn in before:
        if turn.context != now.context:
            continue
        if turn.calls:
            visible.append(turn.number)
        elif isinstance(turn.action, Judge) and not turn.action.useful and visible:
            visible.pop()
    return visible[-1] if visible else None
