"""Rewards as people write them, in a module of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from searchgym.rewards import Outcome, gate, per_turn
from searchgym.types import Search, TurnRequest


def brevity(outcome: Outcome, words: int = 2) -> float:
    """1 for an answer of at most so many words."""
    return 1.0 if outcome.answered and len(outcome.answer.split()) <= words else 0.0


@per_turn(Search)
def novelty(outcome: Outcome) -> float:
    """Share of a search's words that no search before it held."""
    before = {w for turn in outcome.turns[:-1] for w in turn.text.lower().split()}
    words = outcome.text.lower().split()
    return sum(word not in before for word in words) / len(words)


@gate
def correct(outcome: Outcome) -> bool:
    """Whether the answer is right."""
    return outcome.em == 1.0


@per_turn
@gate
def careful(outcome: Outcome) -> float:
    """Halves what a turn earns that shows no new gold passage."""
    return 1.0 if outcome.new_evidence else 0.5


@dataclass
class Thrift:
    """Pays for turns without a search, and once for few turns."""

    most: int = 2

    def turn(self, outcome: Outcome) -> float:
        return 0.0 if outcome.calls else 0.25

    def final(self, outcome: Outcome) -> float:
        return 1.0 if len(outcome.turns) <= self.most else 0.0


class Detail:
    """Several numbers at once."""

    def final(self, outcome: Outcome) -> Mapping[str, float]:
        return {"right": outcome.em, "turns": -0.1 * len(outcome.turns)}


def broken(outcome: Outcome) -> float:
    """A mistake."""
    return float(outcome.answers[99])


def nothing(outcome: Outcome) -> None:
    """Another."""


def endless(outcome: Outcome) -> float:
    """And another."""
    return float("inf")


def state_of_calls(outcome: Outcome) -> float:
    """What a tool's state says at the end."""
    state = outcome.tool_states.get("graph_neighbors", {})
    return float(state.get("asked", 0))


def last_words(request: TurnRequest) -> str:
    """An agent that answers with the question's last two words."""
    return f"<answer>{' '.join(request.segments[1].text.split()[-2:])}</answer>"
