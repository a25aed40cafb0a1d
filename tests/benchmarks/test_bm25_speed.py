"""The engine's batch call beside bm25s's own tokenise + retrieve, in one run, on one thread each.

Measured in seconds of the processor, which other programs' work does not lengthen. bm25s gives
positions and scores, as does the engine's ``search_positions``, with ties in order. ``run`` gives
hits: a Python object each, with its passage and its score. At k = 1,000 they are a million objects,
which take twice as long to make and to drop as to find. Whoever needs so many and no passages asks
for positions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from searchgym.corpora import load_set
from searchgym.engines import BM25Engine
from searchgym.types import CallContext, Query

pytestmark = [pytest.mark.benchmark, pytest.mark.data]
ROUNDS = 9


LEAST = 0.95
"""Of bm25s's speed, of positions and of hits, for any number of them."""


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_run_keeps_up_with_raw_bm25s(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import bm25s
    import Stemmer

    # The tests' process is frozen, which no user's is: hits would be walked through at every call.
    monkeypatch.setattr("searchgym.utils._others_freeze", False)
    gc.unfreeze()
    corpus, _ = load_set("hotpotqa", "public", data_dir)
    questions = [
        task.question
        for split in ("public", "train", "dev_extra")
        for task in load_set("hotpotqa", split, data_dir)[1]
    ][:1024]
    engine = BM25Engine(corpus)
    engine.warm_up()
    options = {
        "stemmer": Stemmer.Stemmer("porter"),
        "stopwords": sorted(engine.analyser.stopwords),
        "token_pattern": r"\w+",
        "show_progress": False,
    }
    peer = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    texts = [f"{p.title}\n{p.text}" for p in corpus]
    peer.index(bm25s.tokenize(texts, **options), show_progress=False)
    context = CallContext(0, "e", {})
    print(f"\n{len(questions)} questions, {len(corpus):,} passages, one thread, median of {ROUNDS}")
    print(f"{'k':>4} {'bm25s ms':>9} {'positions':>9} {'ratio':>6} {'run ms':>9} {'ratio':>6}")
    ratios = {}
    for k in (1, 3, 10, 100, 1000):
        batch = [Query(text, k, context) for text in questions]

        def raw(k: int = k) -> object:
            return peer.retrieve(
                bm25s.tokenize(questions, **options), k=k, show_progress=False, n_threads=0
            )

        raw()
        engine.run(batch[:1])
        works = (
            raw,
            lambda k=k: engine.search_positions(questions, k),
            lambda b=batch: engine.run(b),
        )
        rounds = [[_seconds(work) for work in works] for _ in range(ROUNDS)]
        theirs, positions, run = (median(times) for times in zip(*rounds, strict=True))
        print(
            f"{k:>4} {theirs * 1e3:>9.1f} {positions * 1e3:>9.1f} {theirs / positions:>6.2f} "
            f"{run * 1e3:>9.1f} {theirs / run:>6.2f}"
        )
        ratios[k, "positions"] = theirs / positions
        ratios[k, "hits"] = theirs / run
    assert min(ratios.values()) >= LEAST, ratios


def test_first_call_in_a_fresh_process_loads_compiled_code(tmp_path: Path) -> None:
    code = (
        "import time; from searchgym.corpora.corpus import Corpus;"
        "from searchgym.types import Passage; from searchgym.engines.bm25 import BM25Engine;"
        "e = BM25Engine(Corpus('c', [Passage('1', '', 'red', 'u')]));"
        "t = time.perf_counter(); e.warm_up(); print(time.perf_counter() - t)"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        float(
            subprocess.run(
                [sys.executable, "-c", code], env=env, cwd=Path(__file__).parents[2],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for _ in range(2)
    )  # fmt: skip
    print(
        f"\nfirst call: {first:.2f} s compiling, {second:.2f} s from the disk cache (with import)"
    )
    assert second < first / 2
