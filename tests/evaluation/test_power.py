from math import inf

import numpy as np
import pytest

from searchgym.errors import EvaluationError
from searchgym.evaluation.differences import detectable, power_note, sign_flip_p
from searchgym.seeding import stream


@pytest.mark.parametrize("n", [125, 400])
def test_the_difference_is_found_four_times_in_five(n: int) -> None:
    draw, disagree = stream(0, "power", n), 0.25
    d = detectable(n, disagree=disagree)
    chances = [(disagree + d) / 2, (disagree - d) / 2, 1 - disagree]
    found = 0
    for trial in range(400):
        difference = draw.choice([1.0, -1.0, 0.0], size=n, p=chances)
        found += sign_flip_p(difference, seed=trial, resamples=500) < 0.05
    assert found / 400 == pytest.approx(0.8, abs=0.06)  # three standard errors


def test_it_solves_connors_equation() -> None:
    for n in (50, 125, 3_000):
        for q in (0.1, 0.5, 1.0):
            d = detectable(n, disagree=q)
            if d < inf:
                assert d <= q
                needed = (1.959964 * q**0.5 + 0.841621 * (q - d * d) ** 0.5) ** 2 / d**2
                assert needed == pytest.approx(n, rel=1e-4)
    assert np.all(np.diff([detectable(n) for n in (10, 100, 1_000, 10_000)]) <= 0)
    assert 0.24 < detectable(30) < 0.25


@pytest.mark.parametrize("questions", [1, 2, 3, 5, 10, 20, 28])
def test_no_difference_is_named_that_cannot_be(questions: int) -> None:
    assert detectable(questions) == inf
    note = power_note(questions)
    assert note is not None
    assert "no difference between two agents that disagree on 25 % of them can be told" in note
    assert "must differ" not in note
    assert "5 points take about 850 questions" in note


def test_small_sets_are_noted() -> None:
    note = power_note(125)
    assert note is not None
    assert "±9 points" in note
    assert "differ by about 12 points" in note
    assert power_note(3_610) is None
    with pytest.raises(EvaluationError, match="got 0"):
        detectable(0)
    with pytest.raises(EvaluationError, match=r"got 10 and 1\.5"):
        detectable(10, disagree=1.5)
