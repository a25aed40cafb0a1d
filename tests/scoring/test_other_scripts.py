"""Answers in other scripts than Latin, and that those in Latin script score as they did."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.answerability.stated import AnswerIndex
from searchgym.corpora.corpus import Corpus
from searchgym.text import answer_words, cover_match, exact_match, match, normalise_answer
from searchgym.types import Passage

LATIN = st.text(
    st.characters(max_codepoint=0x24F, exclude_categories=["Cc", "Cs"])
    | st.sampled_from("–—‘’“”…•€™ﬁ an the a"),
    max_size=60,
)


def squad(text: str) -> str:
    """SQuAD's normalisation, written once more."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


@given(LATIN)
def test_latin_script_is_normalised_as_squad_does(text: str) -> None:
    assert normalise_answer(text) == squad(text)
    assert answer_words(squad(text)) == squad(text).split()


@pytest.mark.parametrize(
    ("prediction", "answer"),
    [
        ("月季和菊花。", "月季和菊花"),
        ("「富士山」", "富士山"),
        ("ﾄｳｷｮｳ", "トウキョウ"),
        ("１９９８年", "1998年"),
        ("阿尔伯特·爱因斯坦", "阿尔伯特 爱因斯坦"),
        ("القَاهِرَة،", "القاهرة"),
        ("Mu\u0308nchen", "München"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("दिल्ली।", "दिल्ली"),
        ("גּוֹלְדָּה", "גולדה"),
    ],
)
def test_one_answer_written_in_two_ways_is_one(prediction: str, answer: str) -> None:
    assert exact_match(prediction, [answer]) == 1


def test_characters_count_where_words_have_no_blanks() -> None:
    assert match("北京市", ["北京"]).f1 == pytest.approx(0.8)  # 2 of 3, 2 of 2
    assert match("서울은", ["서울"]).f1 == pytest.approx(0.8)
    assert match("富士山 mountain", ["富士山"]).f1 == pytest.approx(6 / 7)
    assert match("กรุงเทพ", ["กรุง"]).f1 == pytest.approx(8 / 11)
    assert match("Zürich ist", ["Zürich"]).f1 == pytest.approx(2 / 3)


def test_an_answer_is_covered_with_its_particle_but_not_inside_of_a_word() -> None:
    assert cover_match("수도는 서울입니다", ["서울"]) == 1
    assert cover_match("서울대학교", ["서울"]) == 0
    assert cover_match("北京的市花是月季和菊花。", ["月季和菊花"]) == 1
    assert cover_match("القاهرةوية", ["القاهرة"]) == 0


def test_the_audit_finds_answers_that_are_there() -> None:
    texts = [
        "北京的市花是月季和菊花。",
        "비빔밥은 한국의 음식이다.",
        "أُسِّسَتْ القَاهِرَة سنة ٩٦٩",
        "Rom liegt am Tiber.",
    ]
    corpus = Corpus("c", [Passage(str(i), "", text, str(i)) for i, text in enumerate(texts)])
    index = AnswerIndex(corpus)
    for place, answer in enumerate(["月季和菊花", "비빔밥", "القاهرة", "Rom"]):
        assert index.places([answer]) == [place]
        assert index.readable([answer], [str(place)])
    assert index.places(["玫瑰", "김치", "Ro"]) == []
