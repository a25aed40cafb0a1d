"""The corpus that stays in an index of Tantivy, and serving it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.corpora.corpus import Corpus
from searchgym.engines.analysis import Analyser
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.tantivy import TantivyEngine, analysis_of, build, is_index
from searchgym.errors import EngineError
from searchgym.types import Passage

from ..small import CORPUS

TEXTS = st.text("ab é\ud800", max_size=6)
PASSAGES = st.lists(
    st.builds(Passage, TEXTS.map("x{}".format), TEXTS, TEXTS, st.sampled_from(["u", "v", "w"])),
    min_size=1, max_size=8, unique_by=lambda passage: passage.id,
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(PASSAGES)
def test_the_stored_corpus_is_the_corpus(
    tmp_path_factory: pytest.TempPathFactory, passages: list[Passage]
) -> None:
    corpus = Corpus("c", passages)
    folder = tmp_path_factory.mktemp("stored") / "index"
    build(folder, iter(corpus), Analyser())
    stored = TantivyEngine.open(folder).passages
    assert (list(stored), len(stored), stored.digest) == (list(corpus), len(corpus), corpus.digest)
    assert stored[-1] == corpus[-1]
    for passage in corpus:
        assert passage.id in stored
        assert stored.passage(passage.id) == passage
        assert stored.position(passage.id) == corpus.position(passage.id)
        for name in (passage.url, passage.title):
            assert stored.page(name) == corpus.page(name)
    assert "absent" not in stored
    assert stored.page("absent") is None
    with pytest.raises(KeyError):
        stored.passage("absent")
    with pytest.raises(IndexError):
        stored[len(corpus)]


def test_an_index_is_opened_by_the_analysis_it_was_built_with(tmp_path: Path) -> None:
    build(tmp_path / "plain", iter(CORPUS), Analyser(stemmer=None, stopwords=("the",)))
    assert is_index(tmp_path / "plain")
    assert not is_index(tmp_path)
    assert analysis_of(tmp_path / "plain") == {
        "lowercase": True, "stemmer": None, "stopwords": ["the"],
    }  # fmt: skip
    text = CORPUS[0].text
    exact = BM25Engine(CORPUS, stemmer=None, stopwords=("the",))
    (found,) = TantivyEngine.open(tmp_path / "plain").search([text], 3)
    (wanted,) = exact.search([text], 3)
    assert [hit.passage for hit in found] == [hit.passage for hit in wanted]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "build it again"),
        ({"passages": 0}, "no readable"),
        ({"analysis": "[]"}, "no readable"),
        ({"analysis": '[true, "(a+)+$", null, []]'}, "token pattern"),
    ],
)
def test_what_was_forged_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    build(tmp_path / "index", iter(CORPUS), Analyser())
    about = tmp_path / "index" / "searchgym.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **change}))
    with pytest.raises(EngineError, match=message):
        TantivyEngine.open(tmp_path / "index")


def test_ids_must_differ_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="occurs twice"):
        build(tmp_path / "index", [*CORPUS, CORPUS[0]], Analyser())
    assert list(tmp_path.iterdir()) == []
