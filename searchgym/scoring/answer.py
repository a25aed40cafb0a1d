"""How a final answer is measured: EM, F1 and cover-EM, names kept distinct."""

from __future__ import annotations

from ..text import cover_match, exact_match, is_abstention, token_f1
from ..types import Task


def score_answer(task: Task, answer: str) -> dict[str, float]:
    """``{"em", "f1", "cover_em"}``, each in [0, 1], the best over the accepted answers.

    A task that should be refused is right exactly when the answer is a refusal, and a refusal is
    wrong everywhere else.
    """
    if task.should_abstain or is_abstention(answer):
        right = float(task.should_abstain and is_abstention(answer))
        if right or task.should_abstain or not exact_match(answer, task.answers):
            return {"em": right, "f1": right, "cover_em": right}
    return {
        "em": exact_match(answer, task.answers),
        "f1": token_f1(answer, task.answers),
        "cover_em": cover_match(answer, task.answers),
    }
