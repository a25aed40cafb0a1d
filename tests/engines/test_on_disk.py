"""BM25 on disk: the in-memory engine's rankings, the corpus that stays there, strangers' files."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.on_disk import DiskBM25Engine, build, is_index
from searchgym.engines.on_disk.files import ARRAYS, PASSAGES, file_of
from searchgym.engines.registry import build_engine
from searchgym.errors import EngineError
from searchgym.storage import file_digest
from searchgym.types import Passage, Ranking

from ..small import CORPUS
from .forged import common_words, put

TEXTS = st.text("ab é\ud800", max_size=6)
PASSAGES_ = st.lists(
    st.builds(Passage, TEXTS.map("x{}".format), TEXTS, TEXTS, st.sampled_from(["u", "v", "w"])),
    min_size=1, max_size=8, unique_by=lambda passage: passage.id,
)  # fmt: skip
SHARD = 700
QUERIES = ["w0 w1", "w0", "w7 w30 w31", "w2 w3 w5 w50", "nothing", ""]
Kept = tuple[Path, Corpus]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """An index of five shards with long columns (they have bitmaps), and its corpus."""
    corpus = common_words()
    folder = tmp_path_factory.mktemp("index") / "index"
    build(folder, iter(corpus), shard=SHARD)
    return folder, corpus


def test_rankings_are_those_of_the_engine_in_memory_bit_for_bit(kept: Kept) -> None:
    folder, corpus = kept
    exact = BM25Engine(corpus)
    draw = random.Random(5)
    many = [" ".join(f"w{draw.randrange(60)}" for _ in range(draw.randrange(1, 9)))
            for _ in range(200)]  # fmt: skip
    for threads in (1, 2):
        engine = DiskBM25Engine(folder, threads=threads)
        for k in (1, 3, 10, 11, 100, 5000):
            for texts in ([*QUERIES, *many], ["w3 " * 300, "w4"]):
                for found, wanted in zip(
                    engine.search_positions(texts, k), exact.search_positions(texts, k), strict=True
                ):
                    assert np.array_equal(found, wanted)
        for k in (1, 4, 10, 11, 100):  # every second batch begins with the last shard
            for _ in range(2):
                assert engine.search([*QUERIES, *many], k) == exact.search([*QUERIES, *many], k)
        assert engine.search(QUERIES, 0) == [()] * len(QUERIES)


@given(st.data())
def test_any_corpus_is_ranked_as_in_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    words = st.lists(st.sampled_from("abcdefgh"), max_size=6).map(" ".join)
    texts = data.draw(st.lists(words, min_size=1, max_size=30))
    corpus = Corpus("c", [Passage(f"{i:02}", "", t, f"u{i}") for i, t in enumerate(texts)])
    options = data.draw(st.sampled_from([{}, {"k1": 0.0}, {"b": 1.0, "stopwords": None}]))
    folder = tmp_path_factory.mktemp("any") / "index"
    build(folder, iter(corpus), shard=data.draw(st.integers(1, 40)), **options)
    queries = data.draw(st.lists(words, min_size=1, max_size=4))
    exact = BM25Engine(corpus, **options)
    engine, k = DiskBM25Engine(folder), data.draw(st.sampled_from([1, 5, 12]))
    wanted = exact.search(queries, k)
    assert engine.search(queries, k) == wanted
    assert engine.search(queries, k) == wanted, "from the last shard to the first"
    shutil.rmtree(folder)


@settings(max_examples=20, deadline=None)
@given(PASSAGES_)
def test_the_stored_corpus_is_the_corpus(
    tmp_path_factory: pytest.TempPathFactory, passages: list[Passage]
) -> None:
    corpus = Corpus("c", passages)
    folder = tmp_path_factory.mktemp("stored") / "index"
    build(folder, iter(corpus))
    stored = DiskBM25Engine(folder).passages
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


def test_an_index_keeps_the_options_it_was_built_with(tmp_path: Path) -> None:
    folder = str(tmp_path / "index")
    options = {"stemmer": None, "stopwords": ["the"], "k1": 1.5}
    spec = {"name": "bm25_disk", "index": folder, **options}
    made: Any = build_engine(spec, CORPUS)
    assert is_index(folder)
    assert not is_index(tmp_path)
    text = CORPUS[0].text
    assert made.search([text], 3) == BM25Engine(CORPUS, **options).search([text], 3)
    assert DiskBM25Engine(folder).search([text], 3) == made.search([text], 3)
    again: Any = build_engine({"name": "bm25_disk", "index": folder}, CORPUS)
    assert again.fingerprint == build_engine(spec, CORPUS).fingerprint
    with pytest.raises(EngineError, match=r"not with \{'k1': 0.9\}"):
        build_engine({**spec, "k1": 0.9}, CORPUS)
    with pytest.raises(EngineError, match="unknown option 'links'"):
        build_engine({**spec, "links": 3}, CORPUS)
    with pytest.raises(EngineError, match="was not built from corpus"):
        build_engine(spec, Corpus("other", list(CORPUS)[1:]))
    with pytest.raises(EngineError, match="needs a folder"):
        build_engine("bm25_disk", CORPUS)


@pytest.mark.parametrize(("times", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_a_word_may_stand_any_number_of_times(tmp_path: Path, times: int, width: int) -> None:
    corpus = Corpus("c", [Passage("1", "", "w1 " * times, "u"), Passage("2", "w1 w2", "w3", "v")])
    build(tmp_path / "index", corpus)
    assert json.loads((tmp_path / "index" / "searchgym.json").read_text())["width"] == width
    found = DiskBM25Engine(tmp_path / "index").search(["w1 w2", "w1"], 2)
    assert found == BM25Engine(corpus).search(["w1 w2", "w1"], 2)


def test_other_languages_are_read_as_in_memory(tmp_path: Path) -> None:
    corpus = Corpus(
        "c", [Passage("1", "东京", "东京是日本的首都", "u"), Passage("2", "b", "c", "v")]
    )
    build(tmp_path / "index", corpus, unicode=True)
    found = DiskBM25Engine(tmp_path / "index").search(["日本的首都"], 2)
    assert found == BM25Engine(corpus, unicode=True).search(["日本的首都"], 2) != [()]


SENTENCES = {
    "english": "The ferries were leaving the old harbours at nine and nobody knew why",
    "german": "Die Katzen schlafen in den Häusern an der Straße und sind nicht müde",
    "french": "Les élèves des écoles sont dans la forêt avec une amie pour les fêtes",
    "spanish": "Los niños de la escuela están en una estación y no se van con el año",
    "italian": "Il gatto di una città che non è della regione dorme nel perché di lei",
    "russian": "Кошки спят в старых домах и не знают о зимних дорогах",
    "arabic": "تشتهر مدينة بسكرة بزراعة النخيل والتمور في كل عام",
    "persian": "من به کتاب‌ها و خانه‌های قدیمی می‌روم",
    "hindi": "यह क्षेत्र बड़ा है और नदियों से घिरा हुआ है",
    "chinese": "滑铁卢大学是加拿大的大学，湖边有很多游客。",
    "japanese": "富士山は日本で一番高い山です。",
    "korean": "비빔밥은 밥과 나물을 섞은 한국의 음식이다.",
    "thai": "วัดพระแก้วอยู่ในกรุงเทพ",
}


@given(st.data())
def test_every_language_is_ranked_as_in_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    languages = data.draw(st.lists(st.sampled_from(sorted(SENTENCES)), min_size=1, max_size=3))
    words = [word for name in languages for word in SENTENCES[name].split()]
    texts = st.lists(st.sampled_from(words), min_size=1, max_size=12).map(" ".join)
    known = data.draw(st.sampled_from([None, None, True, False]))
    titles = st.sampled_from(["", words[0]])
    drawn = data.draw(st.lists(st.tuples(titles, texts), min_size=1, max_size=9))
    corpus = Corpus("c", [Passage(f"{i:02}", *one, "u") for i, one in enumerate(drawn)])
    corpus.unicode = known  # as folders of documents and worlds say it
    exact, folder = BM25Engine(corpus), tmp_path_factory.mktemp("any") / "index"
    build(folder, corpus if data.draw(st.booleans()) or known is not None else iter(corpus))
    made = DiskBM25Engine(folder)
    assert (made.settings["unicode"], made.settings["stemmer"]) == (
        exact._settings.get("unicode", False), exact._settings["stemmer"],
    )  # fmt: skip
    queries = [*words, data.draw(texts)]
    assert made.search(queries, 9) == exact.search(queries, 9)
    shutil.rmtree(folder)


def test_a_stream_that_begins_in_another_language_is_indexed_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["searchgym.engines.on_disk.build"], "_FIRST", 2)
    texts = ["The old ferry"] * 2 + [SENTENCES["german"]] * 9
    corpus = Corpus("c", [Passage(f"{i:02}", "", t, "u") for i, t in enumerate(texts)])
    build(tmp_path / "index", iter(corpus), progress=print)
    made = DiskBM25Engine(tmp_path / "index")
    assert made.settings["stemmer"] == "german"
    queries = ["Katze", "strasse"]
    assert made.search(queries, 9) == BM25Engine(corpus).search(queries, 9) != [(), ()]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_several_build_one_index(tmp_path: Path) -> None:
    spec = {"name": "bm25_disk", "index": str(tmp_path / "index")}
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: build_engine(spec, CORPUS), range(3)))
    assert len({engine.fingerprint for engine in made}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    with pytest.raises(EngineError, match=f"{re.escape(spec['index'])} holds files already"):
        build(spec["index"], CORPUS)


def test_an_altered_passage_is_not_shown(kept: Kept, tmp_path: Path) -> None:
    shutil.copytree(kept[0], tmp_path / "index")
    passages = tmp_path / "index" / PASSAGES
    passages.write_bytes(passages.read_bytes().replace(b"w0 ", b"w9 "))
    with pytest.raises(EngineError, match=r"passages in .*index are damaged .*not what was saved"):
        DiskBM25Engine(tmp_path / "index").search(["w0"], 3)


def test_ids_must_differ_and_nothing_is_left(tmp_path: Path) -> None:
    for passages, said in (([*CORPUS, CORPUS[0]], "occurs twice"), ([], "no passage")):
        with pytest.raises(EngineError, match=said):
            build(tmp_path / "index", passages)
    for wrong in ({"k1": -1.0}, {"b": 2.0}, {"shard": 0}, {"shard": 65537}, {"stemmer": "x"}):
        with pytest.raises(EngineError):
            build(tmp_path / "index", CORPUS, **wrong)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_passage_without_words_is_kept_and_never_found(tmp_path: Path) -> None:
    build(tmp_path / "index", [Passage("1", "", "the", "u")])
    engine = DiskBM25Engine(tmp_path / "index")
    assert (engine.search(["the"], 3), len(engine)) == ([()], 1)


# --- files of strangers ---------------------------------------------------------------------------
def answers(engine: DiskBM25Engine) -> list[Ranking]:
    return engine.search(QUERIES, 3) + engine.search(QUERIES, 50)


def signed(folder: Path) -> None:
    """Record the files as they are now, as a forger would."""
    path = folder / "searchgym.json"
    about = json.loads(path.read_text())
    for name, kind in ARRAYS.items():
        about["sha256"][name] = file_digest(folder / file_of(name))
        about[name] = (folder / file_of(name)).stat().st_size // np.dtype(kind).itemsize
    path.write_text(json.dumps(about))


@given(st.sampled_from([*map(file_of, ARRAYS), PASSAGES, "searchgym.json"]), st.data())
def test_a_file_with_other_bytes_is_an_error_or_gives_the_same_hits(
    tmp_path_factory: pytest.TempPathFactory, kept: Kept, name: str, data: st.DataObject
) -> None:
    folder, _ = kept
    place = tmp_path_factory.mktemp("altered") / "index"
    shutil.copytree(folder, place)
    content = bytearray((place / name).read_bytes())
    way = data.draw(st.sampled_from(["flip", "cut", "empty", "longer", "gone"]))
    if way == "flip":
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif way == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    elif way == "longer":
        content += data.draw(st.binary(min_size=1, max_size=40))
    elif way == "empty":
        content.clear()
    (place / name).write_bytes(content)
    if way == "gone":
        (place / name).unlink()
    try:
        found = answers(DiskBM25Engine(place))
    except EngineError:
        return
    finally:
        shutil.rmtree(place)
    wanted = answers(DiskBM25Engine(folder))
    assert found == wanted  # of a passage that no query finds


FORGED: dict[str, tuple[str, Callable[[np.ndarray[Any, Any]], None]]] = {
    "indices beyond a shard": ("indices", put(SHARD, 17)),
    "indices beyond the last passage": ("indices", put(3000 - 4 * SHARD, -1)),
    "indices falling": ("indices", lambda a: put(a[5], 6)(a)),
    "indptr far": ("indptr", put(10**9, 5)),
    "indptr falling": ("indptr", lambda a: put(a[7] + 1, 6)(a)),
    "data zero": ("data", put(0, 3)),
    "idf nan": ("idf", put(np.nan, 0)),
    "norms nan": ("norms", put(np.nan, 5)),
    "norms below": ("norms", put(-0.5, 5)),
    "norms so large that nothing scores": ("norms", put(1e300, 5)),
    "largest zero": ("largest", put(0.0, slice(None))),
    "rows beyond": ("rows", put(10**6, 0)),
    "marks all set": ("marks", put(2**64 - 1, slice(None))),
    "shards beyond": ("shards", put(10**6, -1)),
    "shards falling": ("shards", put(10**6, 1)),
    "shards late": ("shards", put(1, 0)),
    "postings beyond": ("postings", put(10**9, -1)),
    "postings falling": ("postings", put(10**9, 1)),
    "postings late": ("postings", put(1, 0)),
    "terms beyond": ("terms", put(10**6, 3)),
    "terms below": ("terms", put(-1, 0)),
    "terms twice": ("terms", lambda a: put(a[3], 4)(a)),
    "most nan": ("most", put(np.nan, 0)),
    "words falling": ("words", lambda a: put(a[4], 3)(a)),
    "numbers beyond": ("numbers", put(10**6, 0)),
    "numbers below": ("numbers", put(-1, 0)),
    "places falling": ("places", put(10**9, 4)),
    "places late": ("places", put(1, 0)),
    "keys falling": ("keys", put(2**64 - 1, 0)),
    "owners beyond": ("owners", put(3000, 0)),
    "owners below": ("owners", put(-1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGED)
def test_numbers_that_retrieval_cannot_rely_on_are_refused_though_signed(
    kept: Kept, tmp_path: Path, how: str
) -> None:
    shutil.copytree(kept[0], tmp_path / "index")
    name, change = FORGED[how]
    path = tmp_path / "index" / file_of(name)
    array = np.fromfile(path, ARRAYS[name])
    change(array)
    array.tofile(path)
    signed(tmp_path / "index")
    with pytest.raises(EngineError, match=r"damaged .*build it again"):
        DiskBM25Engine(tmp_path / "index")


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("change", [-1, 1])
def test_other_lengths_are_refused_though_signed(
    kept: Kept, tmp_path: Path, name: str, change: int
) -> None:
    shutil.copytree(kept[0], tmp_path / "index")
    path = tmp_path / "index" / file_of(name)
    array = np.fromfile(path, ARRAYS[name])
    (array[:-1] if change < 0 else np.append(array, array[-1:])).tofile(path)
    signed(tmp_path / "index")
    with pytest.raises(EngineError, match="damaged"):
        DiskBM25Engine(tmp_path / "index")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1}, {"passages": 0}, {"passages": 2999}, {"passages": 3001}, {"shard": 0},
        {"shard": 699}, {"shard": 10**9}, {"shard": "x"}, {"width": 2}, {"width": 3},
        {"width": None}, {"settings": None}, {"settings": {}},
        {"settings": {"pattern": "(a+)+$"}}, {"settings": {"unicode": 1, "stemmer": 3}},
        {"digest": 3}, {"sha256": None}, {"sha256": {}}, {"data": -1}, {"keys": 10**15},
    ],
)  # fmt: skip
def test_other_words_about_an_index_are_refused(
    kept: Kept, tmp_path: Path, change: dict[str, Any]
) -> None:
    shutil.copytree(kept[0], tmp_path / "index")
    path = tmp_path / "index" / "searchgym.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EngineError):
        DiskBM25Engine(tmp_path / "index")
