from __future__ import annotations

import math

import pytest

from searchgym.scoring.evidence import (
    mean_defined,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
)

RANKED = ["a", "x", "b", "y", "c"]


def test_against_values_worked_out_by_hand() -> None:
    gold = {"a", "b", "z"}
    assert recall_at(RANKED, gold, 1) == pytest.approx(1 / 3)
    assert recall_at(RANKED, gold, 3) == recall_at(RANKED, gold) == pytest.approx(2 / 3)
    assert precision_at(RANKED, gold, 3) == pytest.approx(2 / 3)
    assert precision_at(RANKED, gold, 10) == pytest.approx(2 / 10)  # over k, as trec_eval has it
    assert precision_at(RANKED, gold) == pytest.approx(2 / 5)
    assert precision_at(["a", "a", "x"], gold) == pytest.approx(1 / 2)
    assert precision_at([], gold) == 0.0
    assert reciprocal_rank(RANKED, {"b", "c"}) == pytest.approx(1 / 3)
    assert reciprocal_rank(RANKED, {"b"}, 2) == 0.0


def test_ndcg_with_grades() -> None:
    grades = {"a": 1, "b": 3, "z": 2, "x": 0, "y": -1}
    gain = 1 / math.log2(2) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at(RANKED, grades, 5) == pytest.approx(gain / ideal)
    assert ndcg_at(RANKED, grades, 1) == pytest.approx(1 / 3)
    assert ndcg_at(["b", "z", "a"], grades, 10) == 1.0
    assert ndcg_at([], grades, 10) == 0.0


def test_a_repeated_id_counts_once_at_its_first_place() -> None:
    assert ndcg_at(["a", "a"], {"a": 1, "b": 1}, 2) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert recall_at(["a", "a"], {"a", "b"}) == 0.5


@pytest.mark.parametrize("metric", [recall_at, precision_at, reciprocal_rank])
def test_without_gold_nothing_is_defined(metric) -> None:  # type: ignore[no-untyped-def]
    assert math.isnan(metric(RANKED, ()))
    assert math.isnan(ndcg_at(RANKED, {"a": 0}))
    assert mean_defined([1.0, math.nan, 0.0]) == 0.5
    assert math.isnan(mean_defined([math.nan]))
