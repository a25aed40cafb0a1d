"""Parts of turns: what an action did, and what its results showed."""

from __future__ import annotations

from ..text import cover_match
from ..types import Access, Call, Invalid, Search
from .outcome import Outcome
from .part import per_turn


@per_turn(Search)
def search(outcome: Outcome) -> float:
    """Queries that the turn ran; parallel ones count one by one."""
    return float(len(outcome.calls))


@per_turn(Access)
def access(outcome: Outcome) -> float:
    """1 for a turn that opened a page."""
    return 1.0 if outcome.calls else 0.0


@per_turn(Call)
def call(outcome: Outcome) -> float:
    """1 for a turn that used another tool."""
    return 1.0 if outcome.calls else 0.0


@per_turn(Invalid)
def invalid(outcome: Outcome) -> float:
    """1 for a turn whose text was no legal action."""
    return 1.0


@per_turn(Search, Access, Call)
def evidence(outcome: Outcome) -> float:
    """Share of the task's gold passages that the turn showed for the first time."""
    new = outcome.new_evidence
    return new / outcome.evidence_total if new else 0.0


@per_turn(Search, Access, Call)
def answer_in_results(outcome: Outcome) -> float:
    """1 for a turn whose results hold an accepted answer as whole words, also where the task names
    no gold passages (the turn reward of MT-GRPO, arXiv 2505.11821)."""
    return cover_match(outcome.shown, outcome.answers) if outcome.calls else 0.0
