"""Set answers: how they are read and scored, by worked numbers and by properties."""

from __future__ import annotations

import json
import time

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
        ("Nobody, really; Kira Sanu", 1 / 3, 1 / 3, 1 / 3),  # cut at every separator
        ("Kira Sanu; Nobody, None and Nothing", 1 / 4, 1 / 3, 2 / 7),
        ("Oldeth Marn\n\n- Kira Sanu, and **Rust, Noun and Ember**\n---", 1, 1, 1),
        ('["Oldeth Marn", "Kira Sanu", "Rust, Noun and Ember"', 1, 1, 1),  # cut off
        ('[["Oldeth Marn"], ["Kira Sanu"], ["Rust, Noun and Ember"]]', 1, 1, 1),
        ("Rust; Noun and Ember", 0, 0, 0),  # a name is not joined from lines
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


@pytest.mark.parametrize("name", ["1. FC Quell", "And Also", "The The", "1,000", "Sand and Sea"])
def test_names_that_look_like_separators_or_nothing(name: str) -> None:
    for said in (f"{name}, Kira Sanu", f"Kira Sanu and {name}", f"- Kira Sanu\n- {name}"):
        assert score_set(said, [("Kira Sanu",), (name,)]).exact == 1
    assert score_set(name, [(name,)]).exact == 1


@pytest.mark.parametrize("ordered", [False, True])
def test_any_answer_is_scored_in_linear_time(ordered: bool) -> None:
    units = ["[", '["a",', '[{"a":', "[[],", "a, ", "word and ", "and ", " ", ", ", "; ", "\n", '"',
             "'", "b, b, ", "Rust, Noun and ", "1. ", "- ", "(", "{", "\u00a0", "éé, ", "’", "A;",
             "0,", "Kira Sanu; ", "b", "a ", "\x00", "\u0301"]  # fmt: skip
    task = Task("1", "?", ("x",), items=(*GOLD, ("b, b and b",)), ordered=ordered)
    for unit in units:
        took = []
        for size in (5_000, 20_000):
            said = (unit * size)[:size]
            looks = []
            for _ in range(3):  # others' garbage may be collected in one of them
                begin = time.thread_time()
                scores = score_answer(task, said)
                looks.append(time.thread_time() - begin)
            took.append(min(looks))
            assert scores["em"] == 0
        assert took[1] < max(12 * took[0], 0.05), (unit, took)  # 4 times the text; a busy machine
    with pytest.raises(RecursionError):
        json.loads("[" * 20_000)


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


NAMES = st.lists(
    st.text(st.sampled_from("bcdfgh"), min_size=2, max_size=4), min_size=1, max_size=12, unique=True
)


@given(NAMES, st.integers(1, 6), st.data())
def test_no_way_of_writing_scores_more_than_one_item_a_line(names, gold, data) -> None:
    """Grouped, repeated or padded: the same items score the same, more wrong ones score less."""
    items = [(name,) for name in names[:gold]]
    said = data.draw(st.permutations(names))
    plain = score_set("\n".join(said), items)
    cuts = data.draw(
        st.lists(st.sampled_from([", ", "; ", " and ", ", and ", "\n- "]), min_size=len(said) - 1,
                 max_size=len(said) - 1)
    )  # fmt: skip
    grouped = said[0] + "".join(cut + one for cut, one in zip(cuts, said[1:], strict=True))
    assert score_set(grouped, items)[:4] == plain[:4]
    repeated = [*said, *data.draw(st.lists(st.sampled_from(said)))]
    assert score_set("; ".join(repeated), items)[:4] == plain[:4]
    padding = data.draw(st.lists(st.text("xyz,;and[]\"'\n ", max_size=9), max_size=4))
    for cut in ("; ", ", ", " ", "/", " or "):
        assert score_set(cut.join([grouped, *padding]), items).f1 <= plain.f1
    assert score_set(json.dumps([", ".join(said), *padding]), items).f1 <= plain.f1


@given(NAMES, st.data())
def test_a_list_in_order_counts_places(names, data) -> None:
    items = [(name,) for name in names]
    said = data.draw(st.permutations(names))
    found = score_set(", ".join(said), items, ordered=True)
    assert found.f1 == sum(a == b for a, b in zip(names, said, strict=True)) / len(names)
    assert (found.exact == 1) == (found.tokens == 1) == (said == names)
