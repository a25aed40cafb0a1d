from __future__ import annotations

import pytest

from searchgym.corpora.corpus import Corpus
from searchgym.engines import build_engine
from searchgym.engines.analysis import LUCENE_STOPWORDS, Analyser
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.pages import CorpusPages
from searchgym.errors import EngineError
from searchgym.types import CallContext, PageRequest, Passage

CORPUS = Corpus("c", [Passage("1", "T", "red fox", "u:a"), Passage("2", "T", "blue", "u:a")])


def test_engines_by_name_options_path_and_instance() -> None:
    assert isinstance(build_engine("bm25", CORPUS), BM25Engine)
    tuned = build_engine({"name": "bm25", "k1": 1.2, "stemmer": None}, CORPUS)
    assert tuned.fingerprint == BM25Engine(CORPUS, k1=1.2, stemmer=None).fingerprint
    path = build_engine("searchgym.engines.bm25:BM25Engine", CORPUS)
    assert path.fingerprint == BM25Engine(CORPUS).fingerprint
    assert build_engine(tuned, CORPUS) is tuned


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bm52", "unknown engine 'bm52'. Did you mean 'bm25'"),
        ({"k1": 1.0}, "needs the key 'name'"),
        ({"name": "bm25", "k3": 1.0}, "engine 'bm25': .*k3"),
        ({"name": "bm25", "world": {}}, "engine 'bm25': it has no option 'world'"),
        ("recorded", 'engine \'recorded\': needs more .*"name": "recorded", "path": …'),
        ("graph", "needs a generated world"),
        ("searchgym.engines.bm25:Absent", "cannot load"),
        (7, "a name, a mapping with 'name', or a service, got int"),
    ],
)
def test_wrong_engines_are_one_clear_error(spec: object, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_engine(spec, CORPUS)  # type: ignore[arg-type]


def test_pages_join_the_passages_of_a_url() -> None:
    context = CallContext(0, "e", {})
    pages = CorpusPages(CORPUS)
    page, none = pages.run([PageRequest("u:a", context), PageRequest("u:b", context)])
    assert page is not None
    assert (page.title, page.text, page.passage_ids) == ("T", "red fox\n\nblue", ("1", "2"))
    assert none is None
    assert pages.run([PageRequest(" T ", context)]) == [page]  # results may show titles alone
    assert pages.cache_key(PageRequest("u:a", context)) == b"u:a"


def test_analysis() -> None:
    assert len(LUCENE_STOPWORDS) == 33
    plain = Analyser(stemmer=None, stopwords=None)
    assert plain.terms("The Foxes' état-major, 3.5") == ["the", "foxes", "état", "major", "3", "5"]
    assert Analyser().terms("The runners were running to it") == ["runner", "were", "run"]
    assert Analyser(stemmer="snowball").terms("generously") == ["generous"]
    assert Analyser(stopwords=["foxes"]).terms("the foxes") == ["the"]
    assert Analyser(lowercase=False, stemmer=None, stopwords=None).terms("Ab") == ["Ab"]
    assert Analyser().terms("") == Analyser().terms("x" * 256) == []
    assert len({Analyser().settings, plain.settings, Analyser(stopwords="english").settings}) == 3
