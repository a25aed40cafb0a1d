"""Search in other languages than English, and that English is searched as before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines.analysis import Analyser
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.languages import UnicodeAnalyser, choose_stemmer, fold
from searchgym.errors import EngineError
from searchgym.types import Passage

TEXTS = {
    "peony": "洛阳的牡丹每年四月开放，游客很多。",
    "lake": "青海湖是中国最大的咸水湖。",
    "fuji": "富士山は日本で一番高い山です。",
    "kyoto": "京都の祇園祭は七月に行われます。",
    "bibim": "비빔밥은 밥과 나물을 섞은 한국의 음식이다.",
    "busan": "부산에서는 가을에 영화제가 열린다.",
    "cairo": "القَاهِرَة هي عاصمة مصر وتقع على نهر النيل.",
    "dates": "تشتهر مدينة بسكرة بزراعة النخيل والتمور.",
    "wall": "Die Häuser an der Straße wurden nach dem großen Brand neu gebaut.",
    "lake2": "Der Bodensee ist ein See, der von dem Rhein durchflossen wird.",
}
QUESTIONS = {
    "牡丹什么时候开放？": "peony", "最大的咸水湖": "lake", "湖": "lake", "洛陽 牡丹": "peony",
    "日本で一番高い山は何ですか": "fuji", "ギオン祭 祇園": "kyoto", "富士": "fuji",
    "비빔밥이란 무엇인가?": "bibim", "부산 영화제는 언제 열리나": "busan", "나물": "bibim",
    "ما هي عاصمة مصر؟": "cairo", "القاهرة": "cairo", "أين تزرع النخيل": "dates",
    "Wann wurde das Haus gebaut?": "wall", "strasse brande": "wall", "Seen am Rhein": "lake2",
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> BM25Engine:
    return BM25Engine(Corpus("c", [Passage(k, "", text, k) for k, text in TEXTS.items()]))


@pytest.mark.parametrize(("question", "passage"), QUESTIONS.items())
def test_questions_of_five_languages_find_their_passage(
    engine: BM25Engine, question: str, passage: str
) -> None:
    hits = engine.search([question], 3)[0]
    assert hits, question
    assert hits[0].passage.id == passage


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Das Ge\xadsamt\xadkon\xadzept liegt vor.", "Gesamtkonzept"),
        ("The infor\xadma\xadtion desk", "information"),
        ("The infor\u2060mation de\ufeffsk", "information desk"),
        ("Auf\u200clage der Zeitung", "Auflage"),
        ("यह क्\u200dषेत्र बड़ा है", "क्षेत्र"),
        ("من به خانه می\u200cروم", "میروم"),
        ("کتاب\u200cها را خواندم", "کتاب"),
        ("كتاب علي", "کتاب علی"),
        ("سال ۱۴۰۰ و ١٤٠١", "1400 1401"),
        ("葛\U000e0100飾区", "葛飾"),
        ("first\u200bsecond", "second"),  # a word's edge without width
    ],
)
@pytest.mark.parametrize("unicode", [None, True])
def test_what_is_not_seen_parts_no_words_in_passage_or_query(
    written: str, typed: str, unicode: bool | None
) -> None:
    others = [Passage(f"o{i}", "", text, "u") for i, text in enumerate(TEXTS.values())]
    for text, query in ((written, typed), (typed, written)):
        corpus = Corpus("c", [Passage("it", "", text, "u"), *others])
        (found,) = BM25Engine(corpus, unicode=unicode).search([query], 20)
        assert "it" in [hit.passage.id for hit in found]
    only = Corpus("c", [Passage("it", "", "Das Ge\xadsamt\xadkonzept", "u")])
    assert BM25Engine(only, unicode=unicode).search(["samt"], 1) == [()]


def test_the_language_of_titles_without_texts_is_seen() -> None:
    titled = Corpus("c", [Passage("1", "Die Katzen schlafen in der Sonne und im Haus", "", "u")])
    assert BM25Engine(titled).search(["Katze"], 1)[0]


def test_what_is_chosen(engine: BM25Engine, tmp_path: object) -> None:
    assert isinstance(engine.analyser, UnicodeAnalyser)
    assert choose_stemmer([TEXTS["wall"], TEXTS["lake2"]]) == "german"
    assert choose_stemmer([TEXTS["lake"], "the lake of the north"]) == "porter"
    english = ["The Seine flows by the Musée d'Orsay, and the naïve café of Müller."]
    assert choose_stemmer(english) is None
    assert choose_stemmer(english, always=True) == "porter"
    assert choose_stemmer(["La ville est dans le nord de la France et les gens"]) == "french"
    assert choose_stemmer([]) is None


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_english_words_give_the_same_terms(text: str) -> None:
    plain, other = Analyser(), UnicodeAnalyser()
    assert other.terms(text) == plain.terms(text)
    words = other.terms(f"{text} 牡丹")
    assert words[: len(words) - 3] == plain.terms(text)


@given(st.text(max_size=40))
def test_folding_is_idempotent_and_terms_are_of_folded_text(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    analyser = UnicodeAnalyser()
    assert analyser.terms(fold(text)) == analyser.terms(text)


def test_an_english_corpus_keeps_its_fingerprint_and_its_hits(tmp_path: object) -> None:
    english = Corpus("e", [Passage("m", "", "Müller came to the city of Besançon.", "m")])
    assert BM25Engine(english).fingerprint == BM25Engine(english, unicode=False).fingerprint
    assert BM25Engine(english).search(["Muller Besancon"], 1) == [()]
    folded = BM25Engine(english, unicode=True)
    assert len(folded.search(["Muller Besancon"], 1)[0]) == 1
    assert folded.fingerprint != BM25Engine(english).fingerprint


def test_a_saved_index_is_searched_as_it_was_built(engine: BM25Engine, tmp_path: str) -> None:
    engine.save(f"{tmp_path}/auto")
    again = BM25Engine.load(f"{tmp_path}/auto", engine.corpus)
    assert again.search(list(QUESTIONS), 5) == engine.search(list(QUESTIONS), 5)
    plain = BM25Engine(engine.corpus, unicode=False)
    plain.save(f"{tmp_path}/plain")
    assert BM25Engine.load(f"{tmp_path}/plain", engine.corpus).fingerprint == plain.fingerprint


def test_what_cannot_be_combined_is_refused() -> None:
    corpus = Corpus("e", [Passage("m", "", "word", "m")])
    with pytest.raises(EngineError, match="unknown stemmer 'klingon'"):
        BM25Engine(corpus, stemmer="klingon")
    with pytest.raises(EngineError, match="leave those out"):
        BM25Engine(corpus, unicode=True, lowercase=False)
