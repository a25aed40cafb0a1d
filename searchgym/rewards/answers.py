"""Parts of the end: how right the answer is, and how well formed the episode was.

All are 0 unless the episode was answered (or, in self-search, ended by its one text).
"""

from __future__ import annotations

from ..types import TERMINAL, Invalid
from .outcome import Outcome


def em(outcome: Outcome) -> float:
    """Exact match after SQuAD normalisation, best over the accepted answers."""
    return outcome.em


def f1(outcome: Outcome) -> float:
    """Token F1 after SQuAD normalisation, best over the accepted answers."""
    return outcome.f1


def cover_em(outcome: Outcome) -> float:
    """1 if an accepted answer stands in the answer as whole words."""
    return outcome.cover_em


def format(outcome: Outcome) -> float:
    """Share of turns that were valid actions; in self-search, SSRL's format score of the text."""
    if outcome.end not in TERMINAL:
        return 0.0
    if outcome.self_search:
        from ..scoring.ssrl_format import ssrl_format

        return ssrl_format(outcome.text)
    actions = outcome.actions
    return 1.0 - sum([type(action) is Invalid for action in actions]) / len(actions)
