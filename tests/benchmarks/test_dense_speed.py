"""The dense engine beside plain sentence-transformers + FAISS in one run, and what it finds.

The index of all 21,842 HotpotQA passages takes minutes to encode; it is kept under
``SEARCHGYM_BENCH_CACHE`` (default: ``bench`` in the user's cache) and continued where it was left.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import Corpus, load_set
from searchgym.engines import SentenceEncoder, build_dense, build_engine
from searchgym.scoring import mean_defined, recall_at
from searchgym.storage import cache_folder
from searchgym.types import CallContext, Query

from .table import in_turn, show

pytestmark = [pytest.mark.benchmark, pytest.mark.data, pytest.mark.timeout(7200)]
CONTEXT = CallContext(0, "e", {})
SUBSET, QUERIES, BATCH, K, ROUNDS, LEAST = 256, 256, 64, 10, 5, 0.9
SHARD = 1024


def cache() -> Path:
    home = os.environ.get("SEARCHGYM_BENCH_CACHE")
    return Path(home).expanduser() if home else cache_folder("bench")


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(device="cpu")


def test_as_fast_as_sentence_transformers_and_faiss(
    data_dir: Path, encoder: SentenceEncoder
) -> None:
    """In a row: the library's own ``encode`` and an ``IndexFlatIP`` against ours, same model."""
    import faiss

    corpus, tasks = load_set("hotpotqa", "public", data_dir)
    subset = Corpus("subset", list(corpus)[:: len(corpus) // SUBSET][:SUBSET])
    texts = [encoder.written(p.title, p.text) for p in subset]
    pairs = [(p.title, p.text) for p in subset]
    questions = [task.question for task in tasks][:QUERIES]
    model = encoder._model
    theirs = model.encode(texts, batch_size=32, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.passages(pairs), theirs, atol=1e-5)
    raw = faiss.IndexFlatIP(encoder.dim)
    raw.add(theirs)
    engine = build_engine({"name": "dense", "encoder": encoder}, subset)
    batches = [questions[i : i + BATCH] for i in range(0, len(questions), BATCH)]

    def raw_queries() -> None:
        for batch in batches:
            raw.search(model.encode(batch, batch_size=BATCH), K)

    def our_queries() -> None:
        for batch in batches:
            engine.run([Query(text, K, CONTEXT) for text in batch])

    rows = []
    for what, count, runs in (
        ("passages/s", len(pairs), (lambda: model.encode(texts, batch_size=32),
                                    lambda: encoder.passages(pairs))),
        (f"queries/s, {BATCH} a call", len(questions), (raw_queries, our_queries)),
        ("queries/s, 1 a call", 32, (
            lambda: [raw.search(model.encode([q]), K) for q in questions[:32]],
            lambda: [engine.run([Query(q, K, CONTEXT)]) for q in questions[:32]],
        )),
    ):  # fmt: skip
        base, ours = in_turn(*runs, rounds=ROUNDS)
        ratio = median(b / o for b, o in zip(base, ours, strict=True))
        rows.append((what, count / median(base), count / median(ours), ratio))
    show(
        f"all-MiniLM-L6-v2, {len(subset)} passages, {len(questions)} questions, flat index, k={K}",
        ["", "raw", "engine", "ratio"], rows,
    )  # fmt: skip
    assert min(row[-1] for row in rows) >= LEAST


def test_recall_of_gold_titles_on_hotpotqa(data_dir: Path, encoder: SentenceEncoder) -> None:
    """MiniLM beside BM25 and their fusion, and what approximate indexes lose."""
    corpus, tasks = load_set("hotpotqa", "public", data_dir)
    folder = cache() / "hotpotqa-minilm"
    kinds: list[tuple[Any, ...]] = []
    engines: dict[str, Any] = {"bm25": build_engine("bm25", corpus)}
    for kind in ("hnsw", "flat"):
        start = time.perf_counter()
        made = build_dense(corpus, encoder, folder, kind=kind, shard=SHARD)
        spent = time.perf_counter() - start
        engine: Any = build_engine(
            {"name": "dense", "index": str(folder), "encoder": encoder}, corpus
        )
        vectors = encoder.queries([task.question for task in tasks])
        start = time.perf_counter()
        engine.index.search(vectors, 5)
        searched = len(vectors) / (time.perf_counter() - start)
        kinds.append((kind, made["recall"]["raw"], made["recall"]["served"], spent, searched))
        engines["dense" if kind == "flat" else f"dense, {kind}"] = engine
        if kind != "flat":
            assert made["recall"]["served"] >= 0.9
    for fusion in ("rrf", "rank-score"):
        engines[f"hybrid, {fusion}"] = build_engine(
            {"name": "hybrid", "engines": [engines["bm25"], engines["dense"]], "fusion": fusion},
            corpus,
        )
    show(
        f"recall@10 against flat, {len(corpus):,} passages (build seconds without shared encoding)",
        ["index", "FAISS alone", "served", "build s", "searches/s"], kinds,
    )  # fmt: skip
    rows, found = [], {}
    for name, engine in engines.items():
        rankings = engine.run([Query(task.question, 10, CONTEXT) for task in tasks])
        pairs = [
            ([hit.passage.title for hit in ranking], _titles(corpus, task.evidence))
            for ranking, task in zip(rankings, tasks, strict=True)
        ]
        row = [mean_defined(recall_at(r, g, k) for r, g in pairs) for k in (3, 5, 10)]
        both = sum(set(g) <= set(r[:5]) for r, g in pairs) / len(pairs)
        rows.append((name, *row, both))
        found[name] = row[1]
    show(
        f"gold titles, HotpotQA public, {len(tasks)} questions",
        ["engine", "recall@3", "recall@5", "recall@10", "both@5"], rows,
    )  # fmt: skip
    assert found["hybrid, rrf"] > found["bm25"]
    assert found["hybrid, rrf"] > found["dense"] - 0.02


def _titles(corpus: Corpus, evidence: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(corpus.passage(key).title for key in evidence))
