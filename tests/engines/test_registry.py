from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.analysis import LUCENE_STOPWORDS, Analyser
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.pages import CorpusPages
from searchgym.errors import EngineError
from searchgym.types import CallContext, Hit, PageRequest, Passage, Query, Ranking
from tests import small


class Own:
    """Finds passages in their order."""

    needs_task = False

    def __init__(self, corpus: Corpus, word: str = "fox") -> None:
        self.corpus, self.word = corpus, word
        self.fingerprint = f"own:{corpus.digest}"

    def cache_key(self, request: Query, /) -> None:
        return None

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [tuple(Hit(p, 1.0) for p in list(self.corpus)[: query.k]) for query in batch]


class Unfinished:
    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        raise AssertionError("is not called")


CORPUS = Corpus("c", [Passage("1", "T", "red fox", "u:a"), Passage("2", "T", "blue", "u:a")])


def test_engines_by_name_options_path_and_instance() -> None:
    assert isinstance(build_engine("bm25", CORPUS), BM25Engine)
    tuned = build_engine({"name": "bm25", "k1": 1.2, "stemmer": None}, CORPUS)
    assert tuned.fingerprint == BM25Engine(CORPUS, k1=1.2, stemmer=None).fingerprint
    path = build_engine("searchgym.engines.bm25:BM25Engine", CORPUS)
    assert path.fingerprint == BM25Engine(CORPUS).fingerprint
    assert build_engine(tuned, CORPUS) is tuned
    for spec in (Own, f"{__name__}:Own", {"name": Own, "word": "x"}):
        made = build_engine(spec, CORPUS)
        assert (type(made), made.word) == (Own, "fox" if isinstance(spec, str | type) else "x")
    env = gym.make("SearchQA-v0", corpus=small.CORPUS, tasks=list(small.TASKS), engine=Own)
    env.reset(seed=0)
    assert "Mira Venn" in str(env.step("<search>fox</search>")[0])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bm52", "unknown engine 'bm52'. Did you mean 'bm25'"),
        ({"k1": 1.0}, "needs the key 'name'"),
        ({"name": "bm25", "k3": 1.0}, "engine 'bm25': .*k3"),
        ({"name": "bm25", "world": {}}, "engine 'bm25': unknown option 'world'. Known: b, fields"),
        ("recorded", 'engine \'recorded\': needs more .*"name": "recorded", "path": …'),
        ("graph", "needs a generated world"),
        ("searchgym.engines.bm25:Absent", "cannot load"),
        (
            7,
            "a service: a class or an object with run, cache_key, needs_task, fingerprint; got int",
        ),
        *[
            (spec, r"lacks cache_key\(request\), bytes .*; needs_task, .*; fingerprint, a text")
            for spec in (Unfinished, Unfinished(), f"{__name__}:Unfinished", {"name": Unfinished})
        ],
        ({"name": Own, "wort": "x"}, "Own.: unknown option 'wort'. Did you mean 'word'?"),
        ("searchgym.seeding:derive", "is a function, and an engine is a class with run, cache_key"),
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
