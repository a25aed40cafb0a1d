from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.errors import EngineError
from searchgym.types import CallContext, Passage, Query, Ranking

from .reference import bm25

CONTEXT = CallContext(0, "e", {})
WORDS = ["red", "blue", "green", "fox", "the", "Foxes", "été", "x", "1999", "日本"]
text = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


def corpus_of(texts: list[str]) -> Corpus:
    # Ids whose order differs from the texts' order, so that ties by id are really tested.
    return Corpus(
        "t", [Passage(f"{(7 * i) % 101:03}", "", t, f"u:{i}") for i, t in enumerate(texts)]
    )


def shape(ranking: Ranking) -> list[tuple[str, float]]:
    return [(hit.passage.id, hit.score) for hit in ranking]


@given(st.lists(text, min_size=1, max_size=100), st.lists(text, min_size=1, max_size=5), st.data())
def test_rankings_equal_a_plain_bm25(
    texts: list[str], queries: list[str], data: st.DataObject
) -> None:
    corpus = corpus_of(texts)
    engine = BM25Engine(corpus)
    terms = [engine.analyser.terms(p.text) for p in corpus]
    if not any(terms):
        assert engine.search(queries, 5) == [()] * len(queries)
        return
    batch = [Query(q, data.draw(st.integers(0, 120), label="k"), CONTEXT) for q in queries]
    rankings = engine.run(batch)
    for query, ranking in zip(batch, rankings, strict=True):
        expected = bm25(terms, engine.analyser.terms(query.text), 0.9, 0.4)
        hits = sum(s > 0 for s in expected)
        assert len(ranking) == min(query.k, hits)
        got = [hit.score for hit in ranking]
        assert got == sorted(got, reverse=True)
        for hit in ranking:
            assert hit.score == pytest.approx(expected[corpus.position(hit.passage.id)], rel=1e-5)
        # Exactly the best ones, whatever rounding did to near-ties.
        assert got == pytest.approx(sorted(expected, reverse=True)[: len(got)], rel=1e-5)
        # Ties by id, also across the cut-off: the exhaustive ranking begins with this one.
        everything = engine.search([query.text], len(corpus))[0]
        assert shape(everything)[: query.k] == shape(ranking)
        assert shape(everything) == sorted(shape(everything), key=lambda h: (-h[1], h[0]))


def test_pruned_search_equals_exhaustive_search_bit_for_bit() -> None:
    rng = np.random.default_rng(5)
    words = [f"w{i}" for i in range(400)]
    share = 1 / np.arange(1, 401)
    texts = [" ".join(rng.choice(words, size=12, p=share / share.sum())) for _ in range(3000)]
    corpus = Corpus("zipf", [Passage(f"{i:05}", "", t, f"u:{i}") for i, t in enumerate(texts)])
    engine = BM25Engine(corpus)
    queries = [" ".join(rng.choice(words, size=rng.integers(1, 15))) for _ in range(200)]
    full = engine.search(queries, len(corpus))
    for k in (1, 3, 5, 17, 64, 65, 200):
        for short, long in zip(engine.search(queries, k), full, strict=True):
            assert shape(short) == shape(long)[:k]


def test_no_hits_for_empty_unknown_and_stop_word_queries() -> None:
    engine = BM25Engine(corpus_of(["a red fox", "a blue fox"]))
    assert engine.search(["", "the of and", "zebra", "   ", "?!", "\x00\ud800"], 5) == [()] * 6
    assert engine.search(["fox"], 0) == [()]
    assert engine.search([], 5) == []
    assert engine.search(["fox"], -3) == [()]
    assert engine.run([]) == []
    assert len(engine.search(["fox"], 1000)[0]) == 2


def test_a_megabyte_of_text_is_a_query_and_a_passage() -> None:
    big = "red fox 日本 " * 100_000
    engine = BM25Engine(corpus_of([big, "blue fox", "x" * 1_000_000]))
    ranking = engine.search([big, "z" * 1_000_000, "blue"], 5)
    assert [h.passage.text[:4] for h in ranking[0]] == ["red ", "blue"]
    assert ranking[1] == ()
    assert len(ranking[2]) == 1


def test_batch_order_threads_and_repetition_change_nothing() -> None:
    texts = [" ".join(WORDS[i % 7 : i % 7 + 3]) + f" n{i % 13}" for i in range(100)]
    corpus = corpus_of(texts)
    one, four = BM25Engine(corpus), BM25Engine(corpus, threads=4)
    queries = [f"red fox n{i % 13}" for i in range(64)]
    together = one.search(queries, 4)
    assert together == [one.search([q], 4)[0] for q in queries] == four.search(queries, 4)
    assert one.search(queries[::-1], 4) == together[::-1]
    assert one.fingerprint == four.fingerprint


def test_saved_index_is_mapped_and_checked(tmp_path: Path) -> None:
    corpus = corpus_of(["a red fox", "a blue fox", "green"])
    engine = BM25Engine(corpus, k1=1.2, stopwords=["blue"], method="atire")
    engine.save(tmp_path / "index")
    engine.save(tmp_path / "index")  # replaces
    loaded = BM25Engine.load(tmp_path / "index", corpus)
    assert loaded.fingerprint == engine.fingerprint
    assert isinstance(loaded._index.postings.data.base, np.memmap)
    assert loaded.search(["red fox blue", "green"], 3) == engine.search(
        ["red fox blue", "green"], 3
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index"]
    with pytest.raises(EngineError, match="was not built from corpus"):
        BM25Engine.load(tmp_path / "index", corpus_of(["a red fox", "a blue fox", "grey"]))
    with pytest.raises(EngineError, match="no readable BM25 index"):
        BM25Engine.load(tmp_path / "absent", corpus)
    (data,) = (tmp_path / "index").glob("data-*.npy")
    np.save(data, np.zeros(1, np.float32))
    with pytest.raises(EngineError, match="damaged"):
        BM25Engine.load(tmp_path / "index", corpus)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not delete")
    with pytest.raises(EngineError, match="other files"):
        engine.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_several_save_to_a_folder_while_others_load(tmp_path: Path) -> None:
    corpus, folder = corpus_of(["a red fox", "a blue fox", "green"]), tmp_path / "index"
    engines = [BM25Engine(corpus, k1=k1) for k1 in (0.5, 0.9, 1.3)]
    engines[0].save(folder)
    (folder / "data.npy.part").write_bytes(b"of a save that was killed")

    def save(engine: BM25Engine) -> None:
        for _ in range(15):
            engine.save(folder)

    with ThreadPoolExecutor(3) as pool:
        saves = [pool.submit(save, engine) for engine in engines]
        while not all(done.done() for done in saves):
            found = BM25Engine.load(folder, corpus)
            assert found.fingerprint in {engine.fingerprint for engine in engines}
        for done in saves:
            done.result()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    about = json.loads((folder / "index.json").read_text())
    assert {path.name for path in folder.iterdir()} - {".lock", "index.json"} == {
        name.replace(".", f"-{digest[:16]}.") for name, digest in about["sha256"].items()
    }


def test_fingerprint_and_key_follow_what_answers_depend_on() -> None:
    corpus = corpus_of(["a red fox", "b"])
    prints = {
        BM25Engine(corpus).fingerprint,
        BM25Engine(corpus, k1=1.0).fingerprint,
        BM25Engine(corpus, stemmer=None).fingerprint,
        BM25Engine(corpus, stopwords=None).fingerprint,
        BM25Engine(corpus_of(["a red fox", "c"])).fingerprint,
    }
    assert len(prints) == 5
    key = BM25Engine(corpus).cache_key
    other = CallContext(9, "f", {"noise": 1.0})
    assert key(Query("a", 1, CONTEXT)) == key(Query("a", 1, other)) != key(Query("a", 2, CONTEXT))
    assert key(Query("\ud800", 1, CONTEXT)) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stemmer": "prter"}, "Did you mean 'porter'"),
        ({"stopwords": "lucen"}, "Did you mean 'lucene'"),
        ({"method": "bm52"}, "unknown BM25 method"),
        ({"fields": ("body",)}, "fields must name"),
        ({"b": 2.0}, "0 ≤ b ≤ 1"),
        ({"threads": 0}, "threads"),
        ({"threads": "abc"}, "threads is a whole number from 1, got 'abc'"),
        ({"pattern": "("}, "not a regular expression"),
    ],
)
def test_misconfiguration_is_one_clear_error(options: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(EngineError, match=message):
        BM25Engine(corpus_of(["a"]), **options)


def test_an_empty_corpus_is_refused_and_a_wordless_one_finds_nothing() -> None:
    with pytest.raises(EngineError, match="empty"):
        BM25Engine(Corpus("none", []))
    assert BM25Engine(corpus_of(["the", "of"])).search(["the"], 2) == [()]


@pytest.mark.contract
def test_building_leaves_jax_alone(tmp_path):
    """bm25s computes with JAX as soon as it is imported, which takes a GPU's memory."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text("raise SystemExit('jax was imported')")
    code = (
        "import gymnasium as gym, searchgym, sys\n"
        "env = gym.make('SimpleQA-v0', world={'entities': 400}, tasks={'simple': 3})\n"
        "env.reset(seed=0)\n"
        "assert 'bm25s' in sys.modules and 'jax' not in sys.modules"
    )
    place = os.pathsep.join([str(tmp_path), *sys.path])
    asked = {**os.environ, "PYTHONPATH": place, "SEARCHGYM_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
