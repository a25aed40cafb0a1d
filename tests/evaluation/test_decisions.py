"""Refusals, the knowledge boundary and the frontier, on rows and on agents at play."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import (
    binary_f1_score,
    binary_precision,
    binary_recall,
)

from searchgym import ConstantAgent
from searchgym.agents import OracleAgent
from searchgym.envs import SearchEnv
from searchgym.errors import EvaluationError
from searchgym.evaluation.decisions import Confusion, abstention, knowledge_boundary, solvable
from searchgym.evaluation.metrics import Row
from searchgym.evaluation.run import evaluate
from searchgym.evaluation.summaries import Point, frontier, point, within
from searchgym.seeding import stream
from searchgym.types import ABSTAIN, Task
from tests.small import CORPUS, TASKS

REFUSE = Task("t3", "Who founded Osten?", (ABSTAIN,), family="unanswerable", should_abstain=True)


def row(
    task: str, em: float = 0, searches: int = 0, answer: str = "x", refuse: bool = False,
    end: str = "answered",
) -> Row:  # fmt: skip
    nan = math.nan
    return Row(
        task, "simple", 1, em, em, em, nan, searches, 1, 0, end, 0, answer, nan, nan, nan, refuse
    )


def test_counts_are_those_of_torchmetrics() -> None:
    draw = stream(0, "confusion")
    for _ in range(50):
        decided, should = draw.random((2, 40)) < draw.random((2, 1))
        found = Confusion.of(zip(decided.tolist(), should.tolist(), strict=True))
        a, b = torch.tensor(decided).long(), torch.tensor(should).long()
        for ours, theirs in (
            (found.precision, binary_precision), (found.recall, binary_recall),
            (found.f1(resamples=100), binary_f1_score),
        ):  # fmt: skip
            expected = float(theirs(a, b))
            if ours.n:
                assert ours.mean == pytest.approx(expected, abs=1e-6)
                assert ours.low <= ours.mean <= ours.high
            else:
                assert expected == 0  # nothing to divide by: theirs is 0, ours is not defined


def test_f1_intervals_cover() -> None:
    draw, p = stream(1, "confusion"), np.array([0.3, 0.1, 0.15, 0.45])
    truth = 2 * p[0] / (2 * p[0] + p[1] + p[2])
    hit = 0
    for trial in range(400):
        found = Confusion(*draw.multinomial(200, p).tolist()).f1(seed=trial, resamples=500)
        hit += found.low <= truth <= found.high
    assert hit / 400 == pytest.approx(0.95, abs=0.033)  # three standard errors


def test_f1_at_its_ends_has_a_width() -> None:
    none, every = Confusion(0, 5, 5, 10).f1(), Confusion(10, 0, 0, 10).f1()
    assert (none.mean, none.low) == (0, 0)
    assert 0.2 < none.high < 0.7
    assert (every.mean, every.high) == (1, pytest.approx(1))
    assert 0.7 < every.low < 0.95
    assert Confusion(0, 0, 0, 9).f1().n == 0


def test_refusals_at_play() -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": [*TASKS, REFUSE]})
    right = abstention(evaluate(OracleAgent(shared.tasks), shared).rows)
    assert right.refusals == Confusion(1, 0, 0, len(TASKS))
    assert (right.refusals.f1().mean, right.answered.mean, right.invented) == (1, 1, 0)
    always = abstention(evaluate(ConstantAgent(), shared).rows)
    assert always.refusals == Confusion(1, len(TASKS), 0, 0)
    assert (always.refusals.recall.mean, always.refusals.false_alarm_rate.mean) == (1, 1)
    assert always.answered.n == 0
    never = abstention(evaluate(ConstantAgent("Osten"), shared).rows)
    assert (never.refusals.recall.mean, never.invented) == (0, 1)


def test_silence_is_missed_but_not_invented() -> None:
    found = abstention([row("a", refuse=True, end="max_turns", answer=""), row("b", 1)])
    assert found.refusals == Confusion(0, 0, 1, 1)
    assert found.invented == 0
    lost = abstention([row("a", refuse=True, end="infra_error", answer="")])
    assert lost.refusals.n == 0


def test_what_is_known_and_who_knows_it() -> None:
    samples = [
        *[row("easy", em) for em in (1, 1, 0, 0)],  # half is enough
        *[row("hard", em) for em in (1, 0, 0, 0)],
        row("gone", end="infra_error"),
    ]
    known = solvable(samples)
    assert known == {"easy": True, "hard": False}
    always = [row("easy", searches=1), row("hard", searches=2)]
    ideal = [row("easy"), row("hard", searches=1)]
    assert knowledge_boundary(always, known).f1().mean == 0
    assert knowledge_boundary(ideal, known).f1().mean == 1
    never = knowledge_boundary([row("easy"), row("hard"), row("gone")], known)
    assert never == Confusion(1, 1, 0, 0)
    assert never.f1().mean == pytest.approx(2 / 3)
    with pytest.raises(EvaluationError, match="was searched for 2 times"):
        solvable([row("easy", searches=2)])
    with pytest.raises(EvaluationError, match="no question has closed-book samples"):
        knowledge_boundary(ideal, {"other": True})


def test_the_frontier() -> None:
    a, b, c, d = Point("a", 0, 0.1), Point("b", 1, 0.5), Point("c", 2, 0.4), Point("d", 3, 0.6)
    twin = Point("twin", 1, 0.5)
    assert frontier([d, c, b, a]) == [a, b, d]
    assert frontier([b, twin]) == [b, twin]
    assert frontier([b, Point("worse", 1, 0.4), Point("lost", math.nan, 1)]) == [b]
    assert frontier([]) == []


def test_what_each_search_buys() -> None:
    rows = [
        row("a", 1, 0), row("b", 1, 1), row("c", 0, 1), row("d", 1, 3),
        row("e", 1, 9, end="infra_error"),
    ]  # fmt: skip
    bought = {budget: value.mean for budget, value in within(rows, (0, 1, 2, 3)).items()}
    assert bought == {0: 0.25, 1: 0.5, 2: 0.5, 3: 0.75}
    assert within(rows, (0,))[0].n == 4
    assert point("x", rows, "em") == Point("x", 1.25, 0.75)
