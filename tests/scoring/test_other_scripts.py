"""Answers in other scripts than Latin, and that those in Latin script score as they did: by the
rules of SQuAD and HotpotQA."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import AnswerIndex, Corpus
from searchgym.text import (
    answer_words,
    cover_match,
    exact_match,
    match,
    normal_form,
    normalise_answer,
)
from searchgym.types import Passage
from tests.scoring.squad import squad

LATIN = st.text(
    st.characters(max_codepoint=0x24F, exclude_categories=["Cc", "Cs"])
    | st.sampled_from("–—‘’“”…•€™ﬁ an the a"),
    max_size=60,
)


TYPED = str.maketrans(
    {**dict.fromkeys("‘’‚‛′‹›ʻʼ", "'"), **dict.fromkeys("“”„‟″«»", '"'), "…": "...", "\xad": ""}
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
"""Typographic marks → what an ASCII keyboard has for them."""


def hotpotqa(prediction: str, gold: str) -> tuple[float, float]:
    """EM and F1 of HotpotQA's ``hotpot_evaluate_v1.py``; F1 is SQuAD's but for "yes" and "no"."""
    said, wanted = squad(prediction), squad(gold)
    whole = ("yes", "no", "noanswer")
    if said != wanted and (said in whole or wanted in whole):
        return 0.0, 0.0
    common = sum((Counter(said.split()) & Counter(wanted.split())).values())
    if not common:
        return float(said == wanted), 0.0
    precision, recall = common / len(said.split()), common / len(wanted.split())
    return float(said == wanted), 2 * precision * recall / (precision + recall)


@given(LATIN)
def test_latin_script_is_normalised_as_squad_does(text: str) -> None:
    typed = squad(text.translate(TYPED))
    if typed:  # see test_what_normalises_to_nothing_is_kept
        assert normalise_answer(text) == typed
    assert answer_words(typed) == typed.split()


WORDS = "yes no noanswer a an the The Who who's Mira (3.14) 314 1,000 x-y ; . * -".split()
ANSWERS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join) | st.text(
    st.characters(max_codepoint=0x7E, exclude_categories=["Cc"]), max_size=30
)


@given(ANSWERS, ANSWERS)
def test_em_and_f1_are_those_of_hotpotqa(said: str, gold: str) -> None:
    ours = match(said, [gold])
    if squad(gold):  # what its script says of golds that normalise to nothing is no score
        assert (ours.exact, ours.f1) == pytest.approx(hotpotqa(said, gold))
    assert exact_match(said, [gold]) == ours.exact
    assert cover_match(said, [gold]) == ours.cover


@pytest.mark.parametrize(
    ("prediction", "answer"),
    [
        ("Don’t Look Now", "Don't Look Now"),
        ("“Heroes”", '"Heroes"'),
        ("«Heroes»", "Heroes"),
        ("1914–1918", "1914-1918"),
        ("−5", "-5"),
        ("Jean‑Luc", "Jean-Luc"),
        ("New\u00a0York\u202fCity", "New York City"),
        ("co\u00adop\u200beration\ufeff", "cooperation"),
        ("Hawaiʻi", "Hawai'i"),
        ("wait…", "wait..."),
        ("**Paris**.", "Paris"),
        ("`x`", "x"),
        ("(3.14)", "3.14"),
    ],
)
def test_answers_as_chat_models_type_them(prediction: str, answer: str) -> None:
    assert exact_match(prediction, [answer]) == exact_match(answer, [prediction]) == 1


@pytest.mark.parametrize("answer", ["A", "The The", "*", "....-", "…", "、"])
def test_what_normalises_to_nothing_is_kept(answer: str) -> None:
    assert match(answer, [answer]) == (1, 1, 1)
    assert match(f" {answer.upper()}\n", ["Mira", answer]) == (1, 1, 1)
    others = {"A", "The The", "*", "....-", "…", "、", "an", "Mira", "A Mira"} - {answer}
    assert all(match(other, [answer]).exact == 0 for other in others)
    assert match("A.", ["A"]).exact == 1
    for nothing in ("", " \u200b\u3000\n"):
        assert match(nothing, [answer, nothing]) == match(answer, [nothing]) == (0, 0, 0)


def test_normal_forms_are_unicodes_and_runs_of_marks_are_parted() -> None:
    """UAX #15, stream-safe text: a joiner after every 30 marks, and nothing else changes."""
    late = "".join(map(chr, range(0x300, 0x10000)))  # hypothesis rarely draws marks
    for character in filter(lambda c: not 0xD800 <= ord(c) < 0xE000, late):
        plain = unicodedata.normalize("NFKD", character)
        if unicodedata.combining(plain[0]):  # else a run of them would take quadratic time
            run = normal_form("NFKD", character * 100 + "\u0316\u0301" * 20)
            marks = max(map(len, re.findall(r"[^\u034f]+", run)))
            assert marks <= 30 * len(plain), f"U+{ord(character):04X}"
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        for text in (
            "e" + "\u0301\u0316" * 15,
            "ﬁ ｶﾞ \u1e69 각 Ångström —" * 20,
            "─" * 99,
            " " * 99,
        ):
            assert normal_form(form, text) == unicodedata.normalize(form, text)
    assert normal_form("NFC", "x" + "\u0316" * 65).split("\u034f") == [
        "x" + "\u0316" * 30, "\u0316" * 30, "\u0316" * 5,
    ]  # fmt: skip


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
