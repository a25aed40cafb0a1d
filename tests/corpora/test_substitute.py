"""Names exchanged over a whole set: consistent, exact, and only names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora.corpus import Corpus
from searchgym.corpora.load import load_corpus, load_questions
from searchgym.corpora.substitute import (
    WordTable,
    name_words,
    save_substituted,
    substitute,
    words_of,
)
from searchgym.errors import DataError
from searchgym.text import normalise_answer
from searchgym.types import Passage, Task

PAGES = {
    "Mira Venn": "The pilot Mira Venn was born in Quell on May 3, 1931.",
    "Quell": "It is said that Quell lies on the Orrin. People like the town.",
    "Orrin": "The ORRIN, or Orrin river, is long. Long ago it was longer.",
}
CORPUS = Corpus("made", [Passage(f"w{i}", t, PAGES[t], "u") for i, t in enumerate(PAGES)])
TASKS = [
    Task("q1", "where was mira venn born", ("Quell",), ("w0",), ("Mira Venn",)),
    Task("q2", "When was Venn's birth?", ("3 May 1931", "May 3, 1931"), ("w0",)),
    Task("q3", "Which are they?", ("Orrin; Quell",), items=(("Orrin",), ("Quell",))),
]


def test_what_counts_as_a_name() -> None:
    texts = [text for p in CORPUS for text in (p.title, p.text)]
    assert name_words(texts) == ["mira", "orrin", "quell", "venn"]
    assert name_words(texts, keep=["Quell"]) == ["mira", "orrin", "venn"]


def test_a_set_keeps_its_sense_under_other_names(tmp_path: Path) -> None:
    found = substitute(CORPUS, TASKS, seed=1)
    new = found.table.words
    first, second, third = found.corpus
    assert first.title == f"{new['mira'].capitalize()} {new['venn'].capitalize()}"
    assert first.text.endswith("on May 3, 1931.")
    assert new["orrin"].upper() in third.text
    assert [p.id for p in found.corpus] == ["p0000000", "p0000001", "p0000002"]
    assert not any("Venn" in text or "Quell" in text for p in found.corpus for text in p)
    one, two, three = found.tasks
    assert one.question == f"where was {new['mira']} {new['venn']} born"
    assert one.answers == (second.title,)
    assert one.evidence == ("p0000000",)
    assert two.answers == TASKS[1].answers
    assert three.items == ((third.title,), (second.title,))
    assert [t.id for t in found.tasks] == [t.id for t in TASKS]
    back = found.table.inverse()
    assert [back(p.text) for p in found.corpus] == [p.text for p in CORPUS]
    assert substitute(CORPUS, TASKS, seed=1).table.words == new
    assert substitute(CORPUS, TASKS, seed=2).table.words != new
    save_substituted(found, tmp_path)
    assert list(load_corpus(tmp_path / "passages.jsonl")) == list(found.corpus)
    read = load_questions(tmp_path / "questions.jsonl")
    assert [(t.question, t.answers, t.items) for t in read] == [
        (t.question, t.answers, t.items) for t in found.tasks
    ]
    assert json.loads((tmp_path / "words.json").read_text()) == new


def test_a_set_without_names_is_refused() -> None:
    with pytest.raises(DataError, match="no words that are written as names"):
        substitute(Corpus("x", [Passage("1", "", "nothing here", "u")]), [])


TEXT = st.text(st.sampled_from("abcABC éÉ1-.'"), max_size=40)
TABLE = WordTable({"a": "qx", "ab": "qy", "abc": "qz", "é": "qw"})


@given(TEXT)
def test_a_table_can_be_read_backwards(text: str) -> None:
    lower = text.lower()
    assert TABLE.inverse()(TABLE(lower)) == lower
    assert len(words_of(TABLE(text))) == len(words_of(text))


WORDS = st.lists(st.sampled_from(["ab", "abc", "é", "Ab", "xx", "é1", "-"]), max_size=4)


@given(WORDS, WORDS)
def test_equal_answers_stay_equal_and_different_ones_different(a: list[str], b: list[str]) -> None:
    one, other = " ".join(a), " ".join(b)
    before = normalise_answer(one) == normalise_answer(other)
    assert (normalise_answer(TABLE(one)) == normalise_answer(TABLE(other))) == before


@pytest.mark.parametrize("words", [{"a": "x", "b": "x"}, {"A": "x"}, {"a": "x y"}, {"a": "1"}])
def test_a_table_that_cannot_be(words: dict[str, str]) -> None:
    with pytest.raises(DataError):
        WordTable(words)
