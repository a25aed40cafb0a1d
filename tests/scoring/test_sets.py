"""Set answers: how they are read and scored, by worked numbers and by properties."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.scoring import score_answer
from searchgym.scoring.sets import SetScore, read_set, score_set, set_text
from searchgym.types import Task

GOLD = (("Oldeth Marn", "Oldeth Marn (film)"), ("Kira Sanu",), ("Rust, Noun and Ember",))


@pytest.mark.parametrize(
    ("said", "precision", "recall", "f1"),
    [
        ("Oldeth Marn; Kira Sanu; Rust, Noun and Ember", 1, 1, 1),
        ("kira sanu; the Rust, Noun and Ember ;OLDETH MARN (film).", 1, 1, 1),
        ("Oldeth Marn, Kira Sanu and Rust, Noun and Ember", 1, 1, 1),
        ("Oldeth Marn, Kira Sanu, and Rust, Noun and Ember.", 1, 1, 1),
        ("- Oldeth Marn\n- Kira Sanu\n- Rust, Noun and Ember", 1, 1, 1),
        ("1. Oldeth Marn\n2) Kira Sanu\n3. Rust, Noun and Ember", 1, 1, 1),
        ('["Oldeth Marn", "Kira Sanu", "Rust, Noun and Ember"]', 1, 1, 1),
        ("Oldeth Marn; Kira Sanu; and Rust, Noun and Ember", 1, 1, 1),
        ("Kira Sanu", 1, 1 / 3, 1 / 2),
        ("Kira Sanu; Kira Sanu", 1, 1 / 3, 1 / 2),
        ("Oldeth Marn; Oldeth Marn (film)", 1, 1 / 3, 1 / 2),
        ("Kira Sanu; Nobody", 1 / 2, 1 / 3, 2 / 5),
        ("Kira Sanu; Nobody; nobody", 1 / 2, 1 / 3, 2 / 5),
        ("Oldeth Marn; Kira Sanu; Rust, Noun and Ember; Nobody", 3 / 4, 1, 6 / 7),
        ("Nobody, really; Kira Sanu", 1 / 2, 1 / 3, 2 / 5),  # a wrong name with a comma is one
        ("Nobody", 0, 0, 0),
        ("", 0, 0, 0),
        (" ; ;\n", 0, 0, 0),
        ("[", 0, 0, 0),
    ],
)
def test_worked_scores(said: str, precision: float, recall: float, f1: float) -> None:
    found = score_set(said, GOLD)
    assert found[1:4] == pytest.approx((precision, recall, f1))
    assert found.exact == (f1 == 1)


def test_covering_is_not_saying_nothing_else() -> None:
    said = "I think of Oldeth Marn and then Kira Sanu with Rust, Noun and Ember"
    assert score_set(said, GOLD).cover == 1
    assert score_set(said, GOLD).exact == 0


def test_answers_of_a_task() -> None:
    task = Task("1", "Which?", ("Kira Sanu; Oldeth Marn",), items=GOLD[:2])
    assert score_answer(task, "Oldeth Marn; Kira Sanu") == {
        "em": 1.0, "f1": 1.0, "cover_em": 1.0, "set_f1": 1.0,
    }  # fmt: skip
    half = score_answer(task, "Oldeth Marn")
    assert (half["em"], half["set_f1"]) == (0, pytest.approx(2 / 3))
    assert half["f1"] == pytest.approx(2 * 2 / (2 + 4))  # of tokens
    assert score_answer(task, "unanswerable")["set_f1"] == 0
    assert "set_f1" not in score_answer(Task("1", "Who?", ("Kira Sanu",)), "Kira Sanu")


NAME = st.text(st.sampled_from("abcde AND,;&-."), min_size=1, max_size=12)


@given(st.lists(NAME, max_size=5), st.text(max_size=60))
def test_scores_lie_in_their_range_and_exact_is_f1_of_one(names: list[str], said: str) -> None:
    found = score_set(said, [(name,) for name in names])
    assert isinstance(found, SetScore)
    assert all(0 <= value <= 1 for value in found)
    assert (found.exact == 1) == (found.f1 == 1) == (found.precision == found.recall == 1)
    assert read_set(said) == [one for one in read_set(said) if one]


WORDS = st.lists(
    st.text(st.sampled_from("bcdfgh"), min_size=2, max_size=6), min_size=1, max_size=6, unique=True
)


@given(WORDS, st.randoms(use_true_random=False))
def test_every_way_of_writing_a_set_is_read_alike(words: list[str], rng) -> None:
    gold = [(word,) for word in words]
    rng.shuffle(words)
    ways = ["; ".join(words), "\n".join(f"* {w}" for w in words), json.dumps(words)]
    ways += [", ".join(words), set_text(words), " and ".join(words)]
    assert all(score_set(way, gold).exact == 1 for way in ways)


@given(WORDS, WORDS)
def test_set_f1_is_what_its_definition_says(gold: list[str], said: list[str]) -> None:
    both = len(set(gold) & set(said))
    expected = 2 * both / (len(gold) + len(said))
    assert score_set("; ".join(said), [(g,) for g in gold]).f1 == pytest.approx(expected)
