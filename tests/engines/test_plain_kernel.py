"""Retrieval without numba gives the compiled kernels' hits, bits and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines import _kernel, _plain, bm25, bm25_index
from searchgym.engines.bm25 import BM25Engine
from searchgym.types import Passage
from tests.engines.forged import common_words

ARRAYS = tuple(bm25_index._ARRAYS)


@pytest.fixture(scope="module")
def engine() -> BM25Engine:
    return BM25Engine(common_words())


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bm25, bm25_index):
        monkeypatch.setattr(module, "kernels", lambda: _plain)


@given(
    passages=st.lists(st.text("abc ", max_size=12), min_size=1, max_size=90),
    queries=st.lists(st.text("abc ", max_size=8), min_size=1, max_size=4),
    k=st.sampled_from([1, 3, 10, 11, 40]),
)
def test_any_corpus_is_ranked_alike_to_the_bit(
    passages: list[str], queries: list[str], k: int
) -> None:
    words = " ".join
    corpus = Corpus("x", [Passage(str(i), "", words(t), f"u:{i}") for i, t in enumerate(passages)])
    engine = BM25Engine(corpus, stemmer=None, stopwords=None, pattern=r"\S")
    compiled = engine.search([words(q) for q in queries], k)
    with pytest.MonkeyPatch.context() as patch:
        plainly(patch)
        assert engine.search([words(q) for q in queries], k) == compiled


def test_long_columns_and_long_queries_are_ranked_alike(
    engine: BM25Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = ["w0 w1", "w0", "w7 w30 w31", "w2 w3 w5 w50 " * 90, "", "nowhere"]
    compiled = [engine.search(queries, k) for k in (3, 50)]
    assert len(compiled[1][0]) == 50
    plainly(monkeypatch)
    assert [engine.search(queries, k) for k in (3, 50)] == compiled


FORGERIES = {
    "indptr": (0, 1), "rows": (0, 10_000), "indices": (0, -1), "data": (0, np.inf),
    "largest": (0, 9.0), "marks": ((0, 0, 0), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_the_same_altered_indexes_are_refused(engine: BM25Engine, name: str) -> None:
    arrays: dict[str, Any] = {n: getattr(engine._index.postings, n).copy() for n in ARRAYS}
    for kernel in (_kernel, _plain):
        assert kernel.fault(_plain.Postings(**arrays), len(engine._passages)) == 0
    place, value = FORGERIES[name]
    arrays[name][place] = value
    found = [
        kernel.fault(_plain.Postings(**arrays), len(engine._passages))
        for kernel in (_kernel, _plain)
    ]
    assert [_plain.FAULTS[f] for f in found] == [name, name]
