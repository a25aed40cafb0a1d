"""Measures what share of a question set can be answered from a corpus, and what prevents the
rest."""

from __future__ import annotations

from .report import AnswerabilityReport, measure_answerability
from .verdicts import Verdict, judge

__all__ = ["AnswerabilityReport", "Verdict", "judge", "measure_answerability"]
