from __future__ import annotations

import pytest

from searchgym.tasks.comparison import as_superlative, is_phrase
from searchgym.tasks.wording import (
    capitalised,
    clause,
    indefinite,
    plural,
    plural_description,
    predicate,
    split_description,
)
from searchgym.text import listed


@pytest.mark.parametrize(
    ("phrase", "question"),
    [
        ("the film directed by {o}", "which film was directed by {o}"),
        ("the person who directed {s}", "who directed {s}"),
        ("the film starring {o}", "which film stars {o}"),
        ("the novel by {o}", "which novel is by {o}"),
        ("the stadium located in {o}", "which stadium is located in {o}"),
        ("the television series created by {o}", "which television series was created by {o}"),
        ("the film that {o} directed", None),
        ("the city in {o}", None),
        ("the child of {o}", None),
        ("{o}'s band", None),
        ("the film whose music was composed by {o}", None),
    ],
)
def test_descriptions_become_questions(phrase, question):
    assert predicate(phrase) == question


@pytest.mark.parametrize(
    ("phrase", "many"),
    [
        ("the film directed by {o}", "films directed by {o}"),
        ("the person who works in {o}", "people who work in {o}"),
        ("the species that inhabits {o}", "species that inhabit {o}"),
        ("the city that was founded by {o}", "cities that were founded by {o}"),
        ("the film that {o} directed", "films that {o} directed"),
        ("the award that {s} won", "awards that {s} won"),
        ("the sister city of {s}", "sister cities of {s}"),
        ("{s}'s father", None),
        ("the drama film", None),
    ],
)
def test_descriptions_in_the_plural(phrase, many):
    assert plural_description(phrase) == many


def test_heads_and_clauses():
    assert split_description("the head coach of {s}") == ("head coach", "of {s}")
    assert clause("the show devised by {o}", "television series") == "devised by {o}"
    assert clause("the native of {o}", "person") is None
    assert clause("the city on {o}", "city") == "on {o}"


def test_small_words():
    assert plural("company") == "companies"
    assert plural("day") == "days"
    assert plural("church") == "churches"
    assert plural("television series") == "television series"
    assert indefinite("the alumnus of X") == "an alumnus of X"
    assert indefinite("the film by X") == "a film by X"
    assert indefinite("X's band") == "X's band"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert capitalised("the Rome of X") == "The Rome of X"
    assert is_phrase("older") == "is older"
    assert is_phrase("was released earlier") == "was released earlier"
    assert as_superlative("oldest") == "the oldest"
    assert as_superlative("was released first") == "was released first"
