"""Our metrics beside independent implementations, on 1,000 random cases each, within 1e-9.

Rankings with equal scores are put in our order (best score first, ties by id) before anybody
measures, because others break ties their own way: trec_eval by id descending, ranx by position.
"""

from __future__ import annotations

import math
import string
import warnings
from collections.abc import Iterator
from typing import Any

import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import RR, P, R, nDCG
from torchmetrics.functional.text import squad

from searchgym.scoring import score_answer
from searchgym.scoring.evidence import (
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
)
from searchgym.seeding import stream
from searchgym.types import Task

from .squad import squad as by_squad

CASES = 1_000
CUTS = (1, 3, 10)


def _cases() -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Runs with many equal scores, and judgements of which some were never retrieved."""
    draw = stream(0, "cross-check")
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number in range(CASES):
        ids = [f"d{i}" for i in draw.permutation(40)]
        scores = draw.integers(0, 6, size=int(draw.integers(1, 26)))
        run[f"q{number}"] = {key: float(s) for key, s in zip(ids, scores, strict=False)}
        judged = draw.choice(ids, size=int(draw.integers(1, 12)), replace=False)
        grades = {str(key): int(draw.integers(0, 4)) for key in judged}
        grades[str(judged[0])] = max(1, grades[str(judged[0])])
        qrels[f"q{number}"] = grades
    return run, qrels


RUN, QRELS = _cases()
RANKED = {q: sorted(found, key=lambda d: (-found[d], d)) for q, found in RUN.items()}
UNTIED = {q: {d: float(-i) for i, d in enumerate(ids)} for q, ids in RANKED.items()}
GOLD = {q: {d for d, grade in grades.items() if grade > 0} for q, grades in QRELS.items()}


def test_the_cases_have_ties_misses_and_repeats() -> None:
    assert sum(len(set(found.values())) < len(found) for found in RUN.values()) > CASES / 2
    assert sum(GOLD[q].isdisjoint(RANKED[q]) for q in RUN) > 20
    assert {grade for grades in QRELS.values() for grade in grades.values()} == {0, 1, 2, 3}


def test_retrieval_metrics_are_those_of_ir_measures() -> None:
    wanted = {
        RR: {q: reciprocal_rank(RANKED[q], GOLD[q]) for q in RUN},
        nDCG: {q: ndcg_at(RANKED[q], QRELS[q]) for q in RUN},
    }
    for k in CUTS:
        wanted |= {
            P @ k: {q: precision_at(RANKED[q], GOLD[q], k) for q in RUN},
            R @ k: {q: recall_at(RANKED[q], GOLD[q], k) for q in RUN},
            nDCG @ k: {q: ndcg_at(RANKED[q], QRELS[q], k) for q in RUN},
        }
    seen = 0
    for found in ir_measures.iter_calc(list(wanted), QRELS, UNTIED):
        assert wanted[found.measure][found.query_id] == pytest.approx(found.value, abs=1e-9)
        seen += 1
    assert seen == len(wanted) * CASES


@pytest.mark.slow  # compiles ranx's metrics: a minute on one core
def test_retrieval_metrics_are_those_of_ranx() -> None:
    from ranx import Qrels, Run, evaluate

    ours: dict[str, Any] = {
        "mrr": lambda q: reciprocal_rank(RANKED[q], GOLD[q]),
        "ndcg": lambda q: ndcg_at(RANKED[q], QRELS[q]),
    }
    for k in CUTS:
        ours |= {
            f"precision@{k}": lambda q, k=k: precision_at(RANKED[q], GOLD[q], k),
            f"recall@{k}": lambda q, k=k: recall_at(RANKED[q], GOLD[q], k),
            f"ndcg@{k}": lambda q, k=k: ndcg_at(RANKED[q], QRELS[q], k),
        }
    run = Run(UNTIED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Numba's, about its own typed lists
        evaluate(Qrels(QRELS), run, list(ours))
    for name, metric in ours.items():
        theirs = run.scores[name]
        assert len(theirs) == CASES
        for q, value in theirs.items():
            assert metric(q) == pytest.approx(value, abs=1e-9), (name, q)


@pytest.fixture
def _double_precision() -> Iterator[None]:
    """torchmetrics sums in the default type, which has seven digits."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def _text(draw: np.random.Generator) -> str:
    """Words that coincide often, with articles, case, punctuation and white space to normalise."""
    words = [
        "a",
        "an",
        "The",
        "venn",
        "Mira",
        "MIRA",
        "osten",
        "1,000",
        "3.5",
        "é",
        "ſ",
        "x-y",
        "'s",
    ]
    picked = [str(w) for w in draw.choice(words, size=int(draw.integers(1, 6)))]
    marks = draw.choice(list(string.punctuation + "  \t\u00a0"), size=len(picked))
    return " ".join(
        w + (str(m) if draw.random() < 0.3 else "") for w, m in zip(picked, marks, strict=True)
    )


@pytest.mark.usefixtures("_double_precision")
def test_em_and_f1_are_those_of_squad() -> None:
    draw = stream(1, "cross-check")
    partial = compared = 0
    while compared < CASES:
        golds = [_text(draw) for _ in range(int(draw.integers(1, 4)))]
        said = golds[0].upper() if draw.random() < 0.2 else _text(draw)
        if not by_squad(said) or not all(map(by_squad, golds)):
            continue  # see the next test
        compared += 1
        key = str(compared)
        theirs = squad(
            {"prediction_text": said, "id": key},
            {"answers": {"answer_start": [0] * len(golds), "text": golds}, "id": key},
        )
        ours = score_answer(Task(key, "?", tuple(golds)), said)
        assert 100 * ours["em"] == pytest.approx(float(theirs["exact_match"]), abs=1e-9)
        assert ours["f1"] == pytest.approx(float(theirs["f1"]) / 100, abs=1e-9)
        partial += 0 < ours["f1"] < 1
    assert partial > 200


def test_where_squad_differs_on_purpose() -> None:
    """Its script finds "the" right where "a" is asked for: both normalise to nothing."""
    theirs = squad(
        {"prediction_text": "the", "id": "1"},
        {"answers": {"answer_start": [0], "text": ["a"]}, "id": "1"},
    )
    assert float(theirs["exact_match"]) == 100
    assert score_answer(Task("1", "?", ("a",)), "the") == {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
    assert math.isnan(recall_at(["d"], ()))
