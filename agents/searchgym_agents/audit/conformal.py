"""Refusing below a threshold of confidence that holds the risk of a wrong answer at a chosen level.

Conformal risk control (Angelopoulos et al., arXiv 2208.02814, theorem 1): over n calibration
questions, take the least threshold at which (wrong answers given + 1) / (n + 1) is at most the
level. On a further question from the same source the probability of giving a wrong answer is then
at most the level, whatever the agent. Confidence is the share of an agent's samples that agree.
*Learning Conformal Abstention Policies* trains its thresholds; this one only calibrates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from searchgym.errors import EvaluationError
from searchgym.evaluation import Interval, Row, column, proportion
from searchgym.text import is_abstention, normalise_answer


class Voted(NamedTuple):
    """The answer that most of a question's samples give."""

    answer: str
    """"" where most of them refuse or end without an answer."""
    confidence: float
    """Share of the samples that give it; 0 of a refusal."""
    right: bool


class ConformalAbstention(NamedTuple):
    """What became of a test set under a calibrated threshold."""

    threshold: float
    """Confidence from which an answer is given; infinite: none is, for no other one holds."""
    risk: Interval
    """Share of all questions that got a wrong answer."""
    answered: Interval
    """Share of all questions that got an answer."""
    accuracy: Interval
    """Share of the answers given that are right."""


def voted(rows: Sequence[Row], metric: str = "em") -> dict[str, Voted]:
    """Each question's majority answer, over all of its rows (of equal ones the first); right where
    its ``metric`` is 1. Episodes lost to the infrastructure do not count.

    Raises:
        EvaluationError: there are no rows.
    """
    samples: dict[str, list[tuple[str, float]]] = {}
    for row, value in zip(rows, column(rows, metric), strict=True):
        if not row.infra_error:
            given = row.end == "answered" and not is_abstention(row.answer)
            said = normalise_answer(row.answer) if given else ""
            samples.setdefault(row.task_id, []).append((said, float(value)))
    if not samples:
        raise EvaluationError("there are no rows to vote; pass those of one evaluation or several")
    found: dict[str, Voted] = {}
    for task, pairs in samples.items():
        answer, count = Counter(said for said, _ in pairs).most_common(1)[0]
        right = any(value >= 1.0 for said, value in pairs if said == answer)
        found[task] = Voted(answer, count / len(pairs) if answer else 0.0, right and bool(answer))
    return found


def conformal_threshold(confidence: ArrayLike, wrong: ArrayLike, risk: float) -> float:
    """The least threshold at which (wrong answers from it on + 1) / (n + 1) ≤ ``risk``; infinity
    where there is none.

    Args:
        confidence: (n,) of the calibration questions' answers.
        wrong: (n,) true where the answer is wrong.
        risk: Level, between 0 and 1.

    Raises:
        EvaluationError: a level outside of (0, 1), no questions, or different lengths.
    """
    scores, bad = np.asarray(confidence, float), np.asarray(wrong, bool)
    if not 0 < risk < 1:
        raise EvaluationError(f"risk is a share between 0 and 1, for example 0.1; got {risk}")
    if scores.ndim != 1 or scores.shape != bad.shape or not len(scores):
        raise EvaluationError(
            f"one confidence and one verdict a question, got {scores.shape} and {bad.shape}"
        )
    for threshold in np.unique(scores):  # ascending: ever fewer answers
        if (bad[scores >= threshold].sum() + 1) / (len(scores) + 1) <= risk:
            return float(threshold)
    return float(np.inf)


def conformal_abstention(
    calibration: Sequence[Row], test: Sequence[Row], risk: float = 0.1, metric: str = "em"
) -> ConformalAbstention:
    """Calibrate a threshold on some questions and apply it to others.

    Args:
        calibration: Rows (``EvalResult.rows``) of several samples of each question, for example of
            ``evaluate(…, seed=i)`` for several i, joined.
        test: Such rows of other questions from the same source.
        risk: Highest probability of a wrong answer, over all questions.
        metric: Measure that is 1 of a right answer.

    Raises:
        EvaluationError: as :func:`conformal_threshold`, or a question in both.
    """
    known, asked = voted(calibration, metric), voted(test, metric)
    if both := known.keys() & asked.keys():
        raise EvaluationError(f"{min(both)!r} is in both sets; calibrate on other questions")
    wrong = [bool(v.answer) and not v.right for v in known.values()]
    threshold = conformal_threshold([v.confidence for v in known.values()], wrong, risk)
    given = [v for v in asked.values() if v.answer and v.confidence >= threshold]
    right = sum(v.right for v in given)
    return ConformalAbstention(
        threshold,
        proportion(len(given) - right, len(asked)),
        proportion(len(given), len(asked)),
        proportion(right, len(given)),
    )
