"""Measures of answers (EM, F1, cover-EM, set F1) and of retrieval (nDCG, MRR, precision)."""

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

    Of a question for a set (``task.items``) ``em`` and ``cover_em`` are those of
    :func:`searchgym.scoring.sets.score_set`, and there is ``set_f1``, too; ``f1`` stays that of
    tokens.

    A task that should be refused is right exactly when the answer is a refusal, and a refusal is
    wrong everywhere else.
    """
    refused = is_abstention(answer)
    if task.should_abstain:
        return dict.fromkeys(("em", "f1", "cover_em"), float(refused))
    best = match(answer, task.answers)
    if task.items:
        from .sets import score_set

        members = score_set(answer, task.items)
        return {
            "em": members.exact, "f1": best.f1, "cover_em": members.cover, "set_f1": members.f1,
        }  # fmt: skip
    if refused and not best.exact:
        return {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
    return {"em": best.exact, "f1": best.f1, "cover_em": best.cover}
