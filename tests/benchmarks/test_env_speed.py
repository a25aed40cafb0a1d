"""How much the environments add to the search itself. Ratios, all taken in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from searchgym.corpora import load_set
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv, SearchVectorEnv

from .table import in_turn, seconds, show

pytestmark = pytest.mark.benchmark
EPISODES, K = 1_024, 3


def test_vector_env_against_raw_bm25s(data_dir):
    """All 1,024 episodes search at once over 21,842 passages, with full info, on one thread.

    The bar holds for calls that alternate, so that each finds the caches cold.
    """
    import bm25s
    import Stemmer

    corpus, tasks = load_set("hotpotqa", split="public", data_dir=data_dir)
    more = [*load_set("hotpotqa", split="dev_extra", data_dir=data_dir)[1],
            *load_set("hotpotqa", split="train", data_dir=data_dir)[1]]  # fmt: skip
    questions = [t.question for t in [*tasks, *more]][:EPISODES]
    assert len(questions) == EPISODES
    env = SearchVectorEnv(EPISODES, corpus=corpus, tasks=tasks, k=K, max_turns=1_000_000)
    engine = env.env.engine
    same = {  # the raw side analyses exactly as our engine does
        "stopwords": sorted(engine.analyser.stopwords),
        "stemmer": Stemmer.Stemmer("porter"),
        "token_pattern": r"\w+",
        "show_progress": False,
    }
    raw = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    raw.index(bm25s.tokenize([f"{p.title}\n{p.text}" for p in corpus], **same), show_progress=False)

    def search_raw() -> None:
        tokens = bm25s.tokenize(questions, **same)
        raw.retrieve(tokens, k=K, n_threads=1, show_progress=False)

    actions = [f"<search>{q}</search>" for q in questions]
    env.reset(seed=0)
    infos = env.step(actions)[-1]
    assert all(len(hits) == K for hits in infos["hits"])

    def step_only() -> None:
        env.step(actions)

    dialect = get_dialect("search_r1")

    def bare() -> None:
        queries = [dialect.parse(a).action.queries[0] for a in actions]
        for query, ranking in zip(queries, engine.search(queries, K), strict=True):
            dialect.render_hits([(query, ranking)])

    def four(run: Callable[[], None]) -> float:
        start = time.perf_counter()
        for _ in range(4):
            run()
        return (time.perf_counter() - start) / 4

    alternating: list[list[float]] = [[], [], []]
    in_a_row = []
    for _ in range(6):  # contexts of up to five turns, as in training
        env.reset(seed=0)
        for kept, new in zip(
            alternating, in_turn(search_raw, step_only, bare, rounds=4), strict=True
        ):
            kept += new
        env.reset(seed=0)
        in_a_row.append([four(run) for run in (search_raw, step_only)])
    raw_s, step_s, bare_s = (statistics.median(times) for times in alternating)
    raw_row, step_row = (statistics.median(times) for times in zip(*in_a_row, strict=True))
    show(
        f"{EPISODES:,} episodes searching, {len(corpus):,} passages, k = {K}, one thread",
        ("what", "per second", "relative to raw"),
        [
            ("bm25s (numba) tokenise + retrieve", EPISODES / raw_s, 1.0),
            ("parse + engine + format, bare loop", EPISODES / bare_s, raw_s / bare_s),
            ("vector environment, full info", EPISODES / step_s, raw_s / step_s),
            ("the same, four in a row each", EPISODES / step_row, raw_row / step_row),
        ],
    )
    assert raw_s / step_s >= 0.6


def test_vector_env_over_the_graph():
    """At least 20,000 steps a second on one core over the generated world's look-up engine."""
    env = SearchVectorEnv(EPISODES, engine="graph", max_turns=8)
    env.reset(seed=0)
    plans = env.oracle()
    actions = [plan[0] for plan in plans]

    def walk() -> None:
        env.reset(seed=0)
        for _ in range(4):
            env.step(actions)

    def resets() -> None:
        env.reset(seed=0)

    both, reset = in_turn(walk, resets)
    per_step = (statistics.median(both) - statistics.median(reset)) / 4
    show(
        f"SearchQA-v0 over the graph engine, {EPISODES:,} slots",
        ("what", "per second"),
        [("steps", EPISODES / per_step), ("resets", EPISODES / statistics.median(reset))],
    )
    assert EPISODES / per_step >= 20_000


def test_single_env_overhead():
    """One environment's step costs at most 100 µs more than the engine's answer."""
    env = SearchEnv(max_turns=1_000)
    env.reset(seed=0)
    query = env.episode.config.task.queries[0]
    action = f"<search>{query}</search>"
    engine = env.engine

    def steps() -> None:
        env.reset(seed=0)
        for _ in range(50):
            env.step(action)

    def searches() -> None:
        for _ in range(50):
            engine.search([query], 3)

    def resets() -> None:
        env.reset(seed=0)

    step_s, engine_s, reset_s = (statistics.median(t) for t in in_turn(steps, searches, resets))
    overhead = (step_s - reset_s - engine_s) / 50 * 1e6
    show(
        "One environment",
        ("what", "µs"),
        [
            ("step, search included", (step_s - reset_s) / 50 * 1e6),
            ("engine alone", engine_s / 50 * 1e6),
            ("overhead", overhead),
        ],
    )
    assert overhead <= 100


def test_make_is_quick():
    """Building the default environment: world, passages, index, tasks and their proof."""
    from searchgym.envs import setup

    def make() -> None:
        setup._CACHE.clear()
        SearchEnv()

    took = seconds(make, rounds=3)
    show("gym.make of SearchQA-v0", ("what", "seconds"), [("build from nothing", took)])
    assert np.isfinite(took)
    assert took < 20
