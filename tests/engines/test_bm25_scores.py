"""The score matrix is that of the package bm25s, bit for bit, in every variant."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest

from searchgym.corpora.corpus import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.types import Passage


def zipf(n: int) -> list[str]:
    rng = np.random.default_rng(5)
    share = 1 / np.arange(1, 401)
    words = [f"w{i}" for i in range(400)]
    lengths = rng.integers(0, 60, n)
    return [" ".join(rng.choice(words, size=k, p=share / share.sum())) for k in lengths]


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25+"])
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.5, 0.75), (2.0, 1.0)])
def test_scores_are_those_of_bm25s(method: str, k1: float, b: float) -> None:
    texts = zipf(500)
    corpus = Corpus("c", [Passage(f"{i:03}", "", t, f"u:{i}") for i, t in enumerate(texts)])
    engine = BM25Engine(corpus, method=method, k1=k1, b=b)
    words = engine._index.vocabulary
    ids = [[words[term] for term in engine.analyser.terms(text)] for text in texts]
    model = bm25s.BM25(k1=k1, b=b, delta=1.0, method=method)
    theirs = model.build_index_from_ids([*range(len(words))], ids, show_progress=False)
    column = np.repeat(np.arange(len(words)), np.diff(theirs["indptr"]))
    kept = theirs["data"] > 0  # words of an idf of 0 find nothing and are left out
    index = engine._index
    np.testing.assert_array_equal(index.data, theirs["data"][kept])
    np.testing.assert_array_equal(index.indices, theirs["indices"][kept])
    np.testing.assert_array_equal(
        np.repeat(np.arange(len(words)), np.diff(index.indptr)), column[kept]
    )
