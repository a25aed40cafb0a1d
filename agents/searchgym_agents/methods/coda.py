"""CoDA's reward, shared by the planner and its executors (PECO)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from searchgym import Answer
from searchgym.rewards import Outcome
from searchgym.text import blocks, cover_match
from searchgym.types import Invalid, Turn


@dataclass(frozen=True)
class Coda:
    """Pay 6 · F1 - 3 + form of the planner + mean form of the executors + ``refine`` · hit.

    The hit is that what an executor refined holds an accepted answer: a block ``<refine>`` of its
    text, else its report (CoDA and PECO, released code). Form is the share of turns that were
    legal actions, which is ours: the released code pays 1 where a text has every tag (think, task
    and answer, or think, search, refine and answer), else 0. Needs an environment with
    ``delegate=True``; an episode without executors has no form of theirs. Planner and executors are
    one trajectory, so that GRPO's advantage of it is PECO's.
    """

    registered = "reward:coda"
    systems = ("CoDA / PECO",)

    f1: float = 6.0
    shift: float = -3.0
    refine: float = 0.5

    def final(self, outcome: Outcome) -> dict[str, float]:
        contexts: dict[int, list[Turn]] = {}
        for turn in outcome.turns:
            contexts.setdefault(turn.context, []).append(turn)
        planner = contexts.pop(0, [])
        forms = [_form(turns) for turns in contexts.values()]
        refined = [text for turns in contexts.values() for t in turns for text in _refined(t)]
        hit = any(cover_match(text, outcome.answers) for text in refined)
        return {
            "answer": self.f1 * outcome.f1 + self.shift,
            "planner": _form(planner),
            "executors": sum(forms) / len(forms) if forms else 0.0,
            "refine": self.refine if hit else 0.0,
        }


def _form(turns: Sequence[Turn]) -> float:
    legal = sum(not isinstance(turn.action, Invalid) for turn in turns)
    return legal / len(turns) if turns else 0.0


def _refined(turn: Turn) -> list[str]:
    refined = blocks(turn.text, "refine")
    if refined or not isinstance(turn.action, Answer):
        return refined
    return [turn.action.text]
