"""Measures of answers (EM, F1, cover-EM, set F1) and of retrieval (nDCG, MRR, precision)."""

from __future__ import annotations

from ..text import cover_match, exact_match, is_abstention, match
from ..types import Task
from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)

SCORING_VERSION = 3
"""Raised whenever a measure of an answer changes its value; results of two versions are not
compared. 1: cover-EM found the answer anywhere, inside of words, too. 2: as whole words. 3: "yes"
and "no" under F1 as in HotpotQA; answers of several parts by their parts, in the order that the
question asks for; sets cut at every separator; typographic marks, refusals in more words, answers
of articles or marks alone (``searchgym.text``)."""


def score_answer(task: Task, answer: str) -> dict[str, float]:
    """``{"em", "f1", "cover_em"}``, each in [0, 1], the best over the accepted answers.

    Of a question for several things (``task.items``) they are those of
    :func:`searchgym.scoring.sets.score_set`, in order where ``task.ordered``, and
    there is ``set_f1``, too.

    A task that should be refused is right exactly when the answer is a refusal, and a refusal is
    wrong everywhere else.
    """
    refused = is_abstention(answer)
    if task.should_abstain:
        return dict.fromkeys(("em", "f1", "cover_em"), float(refused))
    if task.items:
        from .sets import score_set

        parts = score_set(answer, task.items, ordered=task.ordered)
        exact = exact_match(answer, task.answers)
        cover = cover_match(answer, task.answers) if task.ordered else exact or parts.cover
        return {
            "em": exact or parts.exact,
            "f1": exact or parts.tokens,
            "cover_em": cover,
            "set_f1": exact or parts.f1,
        }
    best = match(answer, task.answers)
    if refused and not best.exact:
        return {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
    return {"em": best.exact, "f1": best.f1, "cover_em": best.cover}
