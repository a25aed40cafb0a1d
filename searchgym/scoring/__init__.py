"""Measures of answers (EM, F1, cover-EM) and of retrieval (nDCG, MRR, precision)."""

from __future__ import annotations

from ..text import is_abstention, match
from ..types import Task

SCORING_VERSION = 2
"""Raised whenever a measure of an answer changes its value; results of two versions are not
compared. 1: cover-EM found the answer anywhere, inside of words, too. 2: as whole words. Since then
other scripts than Latin are normalised, too (``text.normalise_answer``), which moves no score of a
text in Latin script."""


def score_answer(task: Task, answer: str) -> dict[str, float]:
    """``{"em", "f1", "cover_em"}``, each in [0, 1], the best over the accepted answers.

    A task that should be refused is right exactly when the answer is a refusal, and a refusal is
    wrong everywhere else.
    """
    refused = is_abstention(answer)
    if task.should_abstain:
        return dict.fromkeys(("em", "f1", "cover_em"), float(refused))
    found = match(answer, task.answers)
    if refused and not found.exact:
        return {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
    return {"em": found.exact, "f1": found.f1, "cover_em": found.cover}
