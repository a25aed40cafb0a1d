"""An index that takes up changes equals one built anew: adding, changing, deleting."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.corpora import Corpus, SkippedFiles, documents
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.bm25_index import BM25Index
from searchgym.engines.dense import DenseEngine, make
from searchgym.engines.dense.encoder import SentenceEncoder
from searchgym.engines.folders import FolderIndex
from searchgym.engines.passage_cache import TermCache, VectorCache
from searchgym.errors import EngineError
from searchgym.types import Passage
from tests.engines.tiny import tiny_encoder

WORDS = "the apple apples river run running Müller 北京 市花 花 ferry cheese a of 한국".split()
TEXT = st.lists(st.sampled_from(WORDS), min_size=0, max_size=12).map(" ".join)
STATE = st.dictionaries(st.sampled_from("abcdefgh"), TEXT, min_size=1)
"""Passage id → text: one state of a corpus. Those that follow add, change and delete."""
QUERIES = ["apple running", "市花", "Muller cheese", "the", "한국 ferry"]


def corpus_of(state: Mapping[str, str]) -> Corpus:
    return Corpus("c", [Passage(key, key, text, key) for key, text in state.items()])


def same_index(a: BM25Index, b: BM25Index) -> bool:
    return a.vocabulary == b.vocabulary and all(map(np.array_equal, a.postings[:6], b.postings[:6]))


@given(st.lists(STATE, min_size=2, max_size=5), st.booleans())
def test_bm25_equals_a_rebuild_bit_for_bit(states: list[dict[str, str]], unicode: bool) -> None:
    kept = TermCache()
    before: set[tuple[str, str]] = set()
    for state in states:
        made = BM25Engine(corpus_of(state), unicode=unicode, kept=kept)
        fresh = BM25Engine(corpus_of(state), unicode=unicode)
        assert made.fingerprint == fresh.fingerprint
        assert same_index(made._index, fresh._index)
        assert made.search(QUERIES, 9) == fresh.search(QUERIES, 9)
        assert kept.computed == len(set(state.items()) - before), "only what changed is analysed"
        before = set(state.items())


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(model=str(tiny_encoder()))


@settings(deadline=None, max_examples=12)
@given(st.lists(STATE, min_size=2, max_size=4))
def test_dense_equals_a_rebuild(encoder: SentenceEncoder, states: list[dict[str, str]]) -> None:
    kept = VectorCache()
    before: set[tuple[str, str]] = set()
    for state in states:
        made = make(corpus_of(state), encoder=encoder, kept=kept)
        fresh = make(corpus_of(state), encoder=encoder)
        assert made.fingerprint == fresh.fingerprint
        np.testing.assert_allclose(vectors(made), vectors(fresh), atol=1e-6)
        assert kept.computed == len(set(state.items()) - before), "only what changed is encoded"
        before = set(state.items())


def vectors(engine: DenseEngine) -> np.ndarray:
    return np.concatenate(engine.index.vectors.blocks)


@settings(deadline=None, max_examples=15)
@given(st.lists(STATE, min_size=1, max_size=3))
def test_what_is_kept_survives_the_disk(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "terms.npz"
    for state in states:
        kept = TermCache.load(path)
        made = BM25Engine(corpus_of(state), kept=kept)
        assert same_index(made._index, BM25Engine(corpus_of(state))._index)
        kept.save(path)
        again = TermCache.load(path)
        BM25Engine(corpus_of(state), kept=again)
        assert again.computed == 0


@pytest.mark.parametrize("damage", ["cut", "garbage", "absent", "text"])
def test_a_damaged_memory_counts_as_none(tmp_path: Path, damage: str) -> None:
    corpus, kept, path = corpus_of({"a": "apple", "b": "river"}), TermCache(), tmp_path / "t.npz"
    BM25Engine(corpus, kept=kept)
    kept.save(path)
    raw = path.read_bytes()
    {
        "cut": lambda: path.write_bytes(raw[: len(raw) // 2]),
        "garbage": lambda: path.write_bytes(os.urandom(300)),
        "absent": path.unlink,
        "text": lambda: path.write_text("no archive"),
    }[damage]()
    found = TermCache.load(path)
    made = BM25Engine(corpus, kept=found)
    assert found.computed == 2
    assert same_index(made._index, BM25Engine(corpus)._index)


def test_a_folder_is_read_where_it_changed(tmp_path: Path) -> None:
    notes, cache = tmp_path / "notes", tmp_path / "cache"
    notes.mkdir()
    for i in range(5):
        (notes / f"{i}.md").write_text(f"# Note {i}\n\nWord{i} apple.\n")
        os.utime(notes / f"{i}.md", (1e9, 1e9))
    first = FolderIndex(notes, cache=cache)
    assert not first.refresh()
    old_corpus, old_engine = first.corpus, first.engine
    (notes / "1.md").write_text("# Note 1\n\nBanana.\n")
    (notes / "2.md").unlink()
    (notes / "new.txt").write_text("A cherry.")
    assert first.refresh()
    rebuilt = FolderIndex(notes, cache=tmp_path / "other")
    assert list(first.corpus) == list(rebuilt.corpus)
    assert first.engine.fingerprint == rebuilt.engine.fingerprint
    asked = ["banana", "cherry", "word2", "apple"]
    assert first.engine.search(asked, 5) == rebuilt.engine.search(asked, 5)  # type: ignore[attr-defined]
    assert first.engine.search(["word2"], 5) == [()]  # type: ignore[attr-defined]
    assert len(old_engine.search(["word2"], 5)[0]) == 1, "an answer under way keeps its passages"  # type: ignore[attr-defined]
    assert "2.md#00000" in old_corpus
    shutil.rmtree(tmp_path / "other")


def test_a_second_start_reads_and_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents.readers, "_SETTLED_NS", 0)  # the file counts as old at once
    notes, cache = tmp_path / "notes", tmp_path / "cache"
    notes.mkdir()
    (notes / "a.md").write_text("Apple pie.")
    (notes / "b.md").write_bytes(b"\0\1\2")
    with pytest.warns(SkippedFiles, match="binary data"):
        first = FolderIndex(notes, cache=cache)
    with pytest.warns(SkippedFiles, match="binary data"):
        again = FolderIndex(notes, cache=cache)
    assert (first._files.read, again._files.read) == (2, 0)
    assert again._terms is None, "the saved index was opened"
    assert again.engine.search(["apple"], 1) == first.engine.search(["apple"], 1)  # type: ignore[attr-defined]


def test_a_change_of_the_same_size_within_a_clock_tick_is_seen(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("apple")
    stamp = os.stat(notes / "a.md")
    index = FolderIndex(notes, cache=tmp_path / "cache")
    (notes / "a.md").write_text("mango")
    os.utime(notes / "a.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert index.refresh()
    assert index.corpus[0].text == "mango"


@pytest.mark.parametrize("threads", ["abc", "2", 0, 1.5])
def test_threads_that_are_no_number_are_told(tmp_path: Path, threads: object) -> None:
    (tmp_path / "a.md").write_text("apple")
    with pytest.raises(EngineError, match=r"threads of the engine must be .*, got "):
        FolderIndex(tmp_path, {"name": "bm25", "threads": threads}, cache=tmp_path / ".cache")


def test_a_dense_folder_encodes_what_changed(tmp_path: Path, encoder: SentenceEncoder) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for i in range(4):
        (notes / f"{i}.txt").write_text(f"apple number {i}")
    spec = {"name": "dense", "encoder": encoder}
    index = FolderIndex(notes, spec, cache=tmp_path / "cache")
    (notes / "3.txt").write_text("river")
    assert index.refresh()
    assert index._vectors is not None
    assert index._vectors.computed == 1
    fresh = make(index.corpus, encoder=encoder)
    np.testing.assert_allclose(vectors(index.engine), vectors(fresh), atol=1e-6)  # type: ignore[arg-type]
