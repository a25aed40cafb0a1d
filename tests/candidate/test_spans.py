"""Spans, questions and candidate lists on hand-made text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.agents import make_state
from searchgym.text import bare_title
from searchgym.types import ABSTAIN, Answer, Passage, Search
from searchgym.utils.english import stem, tokenise
from searchgym_agents.candidate.actions import CandidateLimits, candidates
from searchgym_agents.candidate.question import read_question
from searchgym_agents.candidate.spans import analyse

TEXT = (
    'Velda Morrin (born 5 May 1921 in Tarsk, Ostria) was an Ostrian drummer and member of "The '
    'Blue Kites". She won six medals in 1950 and 12,500 crowns. The Kites of Tarsk disbanded.'
)


def spans(text, title="Velda Morrin"):
    doc = analyse(title, text)
    found = {}
    for i, span in enumerate(doc.spans):
        found.setdefault(doc.span_text(i), span.kind)
    return found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Velda Morrin", "title"),
        ("5 May 1921", "date"),
        ("1950", "year"),
        ("six", "number"),
        ("12,500", "number"),
        ("Tarsk", "name"),
        ("Tarsk, Ostria", "name"),
        ("drummer", None),
        ("The Blue Kites", "quote"),
        ("Kites of Tarsk", "name"),
    ],
)
def test_finds(text, kind):
    found = spans(TEXT)
    assert text in found
    if kind:
        assert found[text] == kind


def test_titles_lose_their_disambiguator_and_lists_are_not_one_name():
    assert bare_title("Heat (1995 film)") == "Heat"
    found = spans(
        "He worked with Paul Lynde, Alice Ghostley and Carol Lawrence.", "Heat (1995 film)"
    )
    assert "Heat" in found
    assert "Paul Lynde, Alice Ghostley" not in found
    assert "Alice Ghostley and Carol Lawrence" not in found
    assert {"Paul Lynde", "Alice Ghostley", "Carol Lawrence"} <= set(found)


def test_offsets_point_into_the_passage():
    doc = analyse("A Title", TEXT)
    for i, span in enumerate(doc.spans):
        if span.first >= doc.body:
            start = doc.words.start[span.first] - doc.offset
            assert TEXT[start:].startswith(doc.span_text(i))


@given(st.text(max_size=200), st.text(max_size=30))
def test_any_text_is_accepted(text, title):
    doc = analyse(title, text)
    assert all(0 <= f.first < f.last <= len(doc.words.lower) for f in doc.spans)
    read_question(text)
    state = make_state(text, [], [(Passage("p", title, text, "u"), 0, 0)], 3, None)
    found = candidates(state)
    assert found
    last = candidates(state._replace(can_search=False))
    assert last[-1].action == Answer(ABSTAIN)


@pytest.mark.parametrize(
    ("question", "kind", "polar", "sides"),
    [
        ("Which actor starred in Velda?", "person", False, ()),
        ("In what year did Velda Morrin die?", "year", False, ()),
        ("Are Velda Morrin and Tom Hask both drummers?", "other", True, ()),
        (
            "Which band came first, Blue Kites or Red Foxes?",
            "group",
            False,
            ("Blue Kites", "Red Foxes"),
        ),
        ("Is Blue Kites or Red Foxes older?", "other", False, ("Blue Kites", "Red Foxes")),
        ("Velda was shot in Tarsk, in which country?", "place", False, ()),
        ("How many medals did she win?", "number", False, ()),
        ("When was Velda born?", "date", False, ()),
    ],
)
def test_reads_questions(question, kind, polar, sides):
    got = read_question(question)
    assert (got.type, got.polar, got.alternatives) == (kind, polar, sides)


def test_candidates_are_legal_unique_and_capped():
    passage = Passage("p", "Velda Morrin", TEXT, "u")
    state = make_state("Where was Velda Morrin born?", ["x"], [(passage, 0, 0)], 3, None)
    found = candidates(state)
    texts = [(type(c.action), c.text.lower()) for c in found]
    assert len(set(texts)) == len(texts)
    assert any(c.form == "question" for c in found)
    assert not any(c.form in ("yes", "no") for c in found)
    assert len([c for c in candidates(state, CandidateLimits(answers=5)) if c.form == "span"]) == 5
    for turns, queries in ((1, None), (3, 0)):
        last = candidates(make_state("Where?", [], [(passage, 0, 0)], turns, queries))
        assert not any(isinstance(c.action, Search) for c in last)
    asked = make_state(
        "Where was Velda Morrin born?", ["Where was Velda Morrin born?"], [], 3, None
    )
    assert not any(c.form == "question" for c in candidates(asked))


def test_polar_questions_offer_yes_and_no():
    found = candidates(make_state("Is Velda a drummer?", ["Velda"], [], 3, None))
    assert [c.text for c in found if c.form in ("yes", "no")] == ["yes", "no"]


def test_answers_are_offered_after_a_look_or_where_none_is_possible():
    asked = "Which is older, Tarsk or Velda?"
    assert all(c.is_search for c in candidates(make_state(asked, [], [], 3, None)))
    closed = candidates(make_state(asked, [], [], 3, 0))
    assert {c.text for c in closed} >= {"Tarsk", "Velda", "unanswerable"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [("films", "film"), ("directed", "direct"), ("cities", "city"), ("is", "is")],
)
def test_stems(word, expected):
    assert stem(word) == stem(expected)


def test_sentences_survive_initials():
    words = tokenise("J. R. Hask met Dr. Moe. He left.")
    assert words.sentence[-1] == 1
