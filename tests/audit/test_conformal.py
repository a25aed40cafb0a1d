"""Conformal abstention: worked thresholds, and the risk that it promises, on generated worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.envs import SearchEnv
from searchgym.errors import EvaluationError
from searchgym.evaluation import Row, evaluate
from searchgym.seeding import stream
from searchgym_agents.audit.conformal import conformal_abstention, conformal_threshold, voted
from searchgym_agents.candidate.rules import BestSentenceAgent


@pytest.mark.parametrize(
    ("confidence", "wrong", "risk", "threshold"),
    [
        ([0.2, 0.4, 0.6, 0.8], [1, 1, 0, 0], 0.2, 0.6),  # (0 + 1) / 5
        ([0.2, 0.4, 0.6, 0.8], [1, 1, 0, 0], 0.4, 0.4),  # (1 + 1) / 5
        ([0.2, 0.4, 0.6, 0.8], [1, 1, 0, 0], 0.6, 0.2),
        ([0.2, 0.4, 0.6, 0.8], [1, 1, 0, 0], 0.19, math.inf),
        ([0.5, 0.5, 0.5], [1, 0, 0], 0.3, math.inf),  # ties stand or fall together
        ([0.5] * 9, [0] * 9, 0.1, 0.5),
    ],
)
def test_worked_thresholds(confidence, wrong, risk, threshold) -> None:
    assert conformal_threshold(confidence, wrong, risk) == threshold


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40),
       st.floats(0.01, 0.99))  # fmt: skip
def test_threshold_is_the_least_that_holds(pairs, risk) -> None:
    scores, bad = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found = conformal_threshold(scores, bad, risk)
    holds = [t for t in range(6) if (bad[scores >= t].sum() + 1) / (len(pairs) + 1) <= risk]
    least = [t for t in sorted(set(scores.tolist())) if t in holds]
    assert found == (least[0] if least else math.inf)


def row(task: str, answer: str, em: float, end: str = "answered") -> Row:
    nan = math.nan
    return Row(task, "simple", 1, em, em, em, nan, 1, 1, 0, end, 0, answer)


def test_votes() -> None:
    rows = [row("a", "X", 1), row("a", "the x", 1), row("a", "Y", 0), row("b", "unanswerable", 0),
            row("b", "", 0, "max_turns"), row("b", "Z", 1), row("c", "Q", 1, "infra_error"),
            row("c", "R", 0)]  # fmt: skip
    found = voted(rows)
    assert found["a"] == ("x", pytest.approx(2 / 3), True)
    assert found["b"] == ("", 0.0, False)
    assert found["c"] == ("r", 1.0, False)


@pytest.mark.parametrize(("risk", "message"), [(0.0, "between 0 and 1"), (1.0, "got 1.0")])
def test_bad_levels(risk, message) -> None:
    with pytest.raises(EvaluationError, match=message):
        conformal_threshold([0.5], [True], risk)
    with pytest.raises(EvaluationError, match="in both sets"):
        conformal_abstention([row("a", "x", 1)], [row("a", "x", 1)])


@pytest.mark.contract
def test_risk_holds_on_generated_worlds() -> None:
    """Eight worlds, thirty ways to halve each one's questions, five samples a question behind an
    engine that errs in half of its hits: the mean risk is the level's, up to chance."""
    worlds = []
    for seed in range(8):
        env = SearchEnv(
            world={"entities": 200, "seed": seed}, tasks={"simple": 60, "at_most": True},
            engine={"name": "degraded", "noise": 0.5}, max_turns=4,
        )  # fmt: skip
        rows: dict[str, list[Row]] = {}
        for sample in range(5):
            for each in evaluate(BestSentenceAgent(), env, seed=sample).rows:
                rows.setdefault(each.task_id, []).append(each)
        worlds.append(list(rows.values()))
    for level in (0.1, 0.3, 0.5):
        risks, answered = [], []
        for number, questions in enumerate(worlds):
            for split in range(30):
                order = stream(split, "halves", number).permutation(len(questions))
                half = [
                    [r for i in part for r in questions[i]] for part in np.array_split(order, 2)
                ]
                found = conformal_abstention(*half, risk=level)
                risks.append(found.risk.mean)
                answered.append(found.answered.mean)
        asked = sum(map(len, worlds))
        slack = 2.33 * math.sqrt(level * (1 - level) / asked)  # one-sided, 99 %

        assert np.mean(risks) <= level + slack
    assert np.mean(answered) > 0.3, "not by refusing everything"
