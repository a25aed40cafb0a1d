"""More ways of saying what a schema says: what a line stands for, and what is never said."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.cards import card
from searchgym.envs import SearchEnv
from searchgym.errors import WorldError
from searchgym.worlds.loader import load_schema
from searchgym.worlds.paraphrases import FILE, MOST, NEAR, near, paraphrased, variants
from searchgym.worlds.schema import Phrases

from .schemas import small

BANKS = ("document", "question", "noun", "inverse")
SHIPPED = card("corpora", "encyclopedia").folder / FILE


def test_a_line_stands_for_its_variants() -> None:
    assert list(variants("{s} [was|got] made [in|during|] {o} .")) == [
        "{s} was made in {o}.",
        "{s} was made during {o}.",
        "{s} was made {o}.",
        "{s} got made in {o}.",
        "{s} got made during {o}.",
        "{s} got made {o}.",
    ]
    assert list(variants("plain {s}")) == ["plain {s}"]


@given(st.lists(st.lists(st.text("abc", min_size=1), min_size=1, max_size=4), max_size=4))
def test_variants_are_as_many_as_choices(choices: list[list[str]]) -> None:
    line = " x ".join("[" + "|".join(options) + "]" for options in choices)
    expected = 1
    for options in choices:
        expected *= len(options)
    assert len(list(variants(line))) == expected


@pytest.mark.parametrize("line", ["[a|[b|c]]", "a [b", "a] b", "[a|b|c|d|e|f|g|h|i|j]" * 9])
def test_brackets_must_close_and_variants_are_bounded(line: str) -> None:
    with pytest.raises(ValueError, match=r"brackets must close|too many"):
        list(variants(line))
    with pytest.raises(WorldError, match=r"home\.noun: (brackets|1000000000 variants)"):
        paraphrased(load_schema(small()), {"home": {"noun": [line]}})


def test_phrases_are_added_and_held_out_ones_are_not() -> None:
    schema = load_schema(small())
    held = schema.properties[0].question.heldout[0]
    assert held == "What is it that {s} knowss?"
    lines = {"question": [held.lower().rstrip("?"), "where [does|did] {s} live"]}
    wide = paraphrased(schema, {"home": lines, "lead": {"town": ["{s} is a place."]}})
    home = wide.properties[0]
    assert home.question.train[-2:] == ("where does {s} live", "where did {s} live")
    assert len(home.question.train) == len(schema.properties[0].question.train) + 2
    assert home.question.heldout == schema.properties[0].question.heldout
    assert home.document == schema.properties[0].document
    assert wide.types[1].lead.train == (*schema.types[1].lead.train, "{s} is a place.")


def test_a_line_of_many_choices_gives_a_bounded_number() -> None:
    choice = "[" + "|".join(f"w{i}" for i in range(30)) + "]"
    schema = load_schema(small())
    wide = paraphrased(schema, {"home": {"noun": [f"the {choice} of {{s}}"]}})
    added = wide.properties[0].noun.train[len(schema.properties[0].noun.train) :]
    assert len(set(added)) == MOST
    again = paraphrased(schema, {"home": {"noun": [f"the {choice} of {{s}}"]}})
    assert again == wide


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"hom": {"noun": ["the x of {s}"]}}, "Did you mean 'home'"),
        ({"home": {"nouns": ["the x of {s}"]}}, "Did you mean 'noun'"),
        ({"lead": {"twon": ["{s} is."]}}, "Did you mean 'town'"),
        ({"home": {"noun": "the x of {s}"}}, "table of lists of texts"),
        ({"home": ["the x of {s}"]}, "table of lists of texts"),
        ({"home": {"noun": ["the x"]}}, r"lacks \{s\}"),
        ({"home": {"document": ["{s} lives."]}}, r"lacks \{o\}"),
        ({"lead": {"town": ["Few know {s}."]}}, r"must begin with \{s\}"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(data: Any, match: str) -> None:
    with pytest.raises(WorldError, match=match):
        paraphrased(load_schema(small()), data)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    schema = load_schema(small())
    with pytest.raises(WorldError, match="no paraphrases"):
        paraphrased(schema, tmp_path / FILE)
    (tmp_path / FILE).write_text("[home\n", encoding="utf-8")
    with pytest.raises(WorldError, match="not valid TOML"):
        paraphrased(schema, tmp_path / FILE)


def test_the_shipped_ones_are_many_and_say_nothing_held_out() -> None:
    schema = load_schema("encyclopedia")
    wide = paraphrased(schema, SHIPPED)
    for plain, p in zip(schema.properties, wide.properties, strict=True):
        for bank in BANKS:
            phrases, before = getattr(p, bank), getattr(plain, bank)
            assert phrases.heldout == before.heldout
            assert_apart(before, phrases)
            if bank in ("document", "question"):
                assert len(phrases.train) >= 4 * len(before.train), (p.name, bank)
    for type_before, t in zip(schema.types, wide.types, strict=True):
        assert_apart(type_before.lead, t.lead)


def assert_apart(before: Phrases, after: Phrases) -> None:
    added = after.train[len(before.train) :]
    words = {
        phrase: {*re.findall("[a-z0-9{}]+", phrase.lower())} for phrase in [*added, *after.heldout]
    }
    for phrase, held in itertools.product(added, after.heldout):
        a, b = words[phrase], words[held]
        if len(a & b) >= 0.9 * NEAR * len(a | b):  # of the others there are very many
            assert near(phrase, held) < NEAR, (phrase, held)


def test_nearness_is_of_words() -> None:
    assert near("The label of {s} is {o}.", "the label of {s}: {o}!") == 5 / 6
    assert near("{s}, by {o}", "{o} by {s}") == 1.0
    assert near("", "...") == 1.0
    assert near("a b", "c") == 0.0


def test_another_wording_of_the_same_facts() -> None:
    made = {
        wide: SearchEnv(
            **{
                "corpus": "encyclopedia",
                "world": {"entities": 300, "seed": 4},
                "wording": {"seed": 4, "paraphrases": wide},
                "tasks": {"simple": 40, "chain-2": 20},
            }
        )
        for wide in (False, True)
    }
    plain, wide = made[False], made[True]
    assert plain.world is not None
    assert wide.world is not None
    assert plain.world.names == wide.world.names
    assert np.array_equal(plain.world.object_of, wide.world.object_of)
    answers = [{t.id: t.answers for t in s.tasks} for s in (plain, wide)]
    shared = answers[0].keys() & answers[1].keys()
    assert len(shared) > 40
    assert all(answers[0][i] == answers[1][i] for i in shared)
    questions = [{t.id: t.question for t in s.tasks} for s in (plain, wide)]
    assert sum(questions[0][i] != questions[1][i] for i in shared) > 0.6 * len(shared)
    assert all(re.search(r"\w", q) and "[" not in q for q in questions[1].values())


def test_a_world_without_paraphrases_says_so() -> None:
    with pytest.raises(WorldError, match="no paraphrases"):
        SearchEnv(**{"corpus": "research", "wording": {"paraphrases": True}}).tasks  # noqa: B018
