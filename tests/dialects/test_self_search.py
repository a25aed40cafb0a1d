"""Blocks and spans of self-search texts, and what is done with them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from searchgym.dialects.base import DIALECTS, SELF_SEARCH, get_dialect
from searchgym.dialects.masks import MASKED
from searchgym.dialects.search_r1 import NOTHING, SelfSearch, blocks
from searchgym.errors import DialectError
from searchgym.scoring import ssrl_format
from searchgym.types import Answer, Hit, Invalid, Passage, Search, Span

from ..small import PASSAGES
from .common import TEXT

DIALECT = get_dialect("search_r1_self")
INFO = "<information>\nDoc 1\n<answer>no</answer> </search>\n</information>"
FULL = (
    f"<think> a </think>\n<search> q one </search>{INFO}<think>b</think><search>q two</search>"
    f"{INFO}<think>c</think>\n<answer> Quell </answer>"
)


def test_every_block_has_its_span() -> None:
    action, spans, cut = DIALECT.parse(FULL)
    assert (action, cut) == (Answer("Quell"), len(FULL))
    assert [(s.kind, FULL[s.start : s.end]) for s in spans] == [
        ("think", "a"),
        ("search", "q one"),
        (MASKED, INFO),
        ("information", "Doc 1\n<answer>no</answer> </search>"),
        ("think", "b"),
        ("search", "q two"),
        (MASKED, INFO),
        ("information", "Doc 1\n<answer>no</answer> </search>"),
        ("think", "c"),
        ("answer", "Quell"),
    ]
    first, second = [s for s in spans if s.kind == MASKED]
    assert first.end < second.start  # equal texts, each at its own place


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<answer>a</answer> <answer> b </answer> tail", Answer("b")),
        ("<think><answer>a</answer>", Answer("a")),
        ("<information><answer>a</answer></information>", Invalid("no closed <answer>")),
        ("<information> never closed <answer>a</answer>", Answer("a")),
        ("<answer> a", Invalid("no closed <answer>")),
        ("<answer> \x00 </answer>", Invalid("empty answer")),
        ("<search>a</search>", Invalid("no closed <answer>")),
        ("", Invalid("no closed <answer>")),
    ],
)
def test_the_last_answer_outside_information_counts(text: str, action: object) -> None:
    assert DIALECT.parse(text).action == action


def test_unclosed_information_is_masked_to_the_next_tag_or_the_end() -> None:
    for text, masked in (
        ("<think>a</think><information> b\nc", "<information> b\nc"),
        ("<information> b <think>a</think>", "<information> b "),
        ("<search>a<information> b", "<information> b"),
    ):
        spans = DIALECT.parse(text).spans
        assert [text[s.start : s.end] for s in spans if s.kind == MASKED] == [masked]
    assert not blocks("<information>x")[0].closed


def test_a_block_that_quotes_an_opening_tag_is_masked_to_its_own_close() -> None:
    block = "<information>a<information>b</information>c</information>"
    text = f"<search>q</search>{block}<think>d</think> </information><answer>e</answer>"
    spans = DIALECT.parse(text).spans
    assert [text[s.start : s.end] for s in spans if s.kind == MASKED] == [block]


@given(TEXT)
def test_any_text_is_read(text: str) -> None:
    for made in (text, f"<think>{text}</think><information>{text}</information>{text}"):
        parsed = DIALECT.parse(made)
        assert parsed.cut == len(made)
        last = Span("", 0, 0)
        for span in parsed.spans:
            assert 0 <= span.start < span.end <= len(made)
            assert span.start >= last.start
            inside = last.kind == MASKED and span.kind == "information"
            assert span.end <= last.end if inside else span.start >= last.end
            last = span if not inside else last


def test_reading_takes_linear_time() -> None:
    for piece in ("<information>", "</information>", "<think>", "<search>a</search>", "<answer>"):
        text = piece * (1_000_000 // len(piece))
        started = time.perf_counter()
        DIALECT.parse(text)
        assert time.perf_counter() - started < 3.0, piece


def test_it_writes_what_it_reads() -> None:
    assert isinstance(DIALECT, SelfSearch)
    trap = Hit(PASSAGES[4], 1.0)
    tagged = Hit(Passage("x", "a <b>", "1 < 2 <i>it</i>", ""), 1.0)
    searches = [DIALECT.render_search("who?", (trap, tagged)), DIALECT.render_search("a\nb", ())]
    text = DIALECT.render_text(searches, "Quell")
    assert DIALECT.parse(text).action == Answer("Quell")
    assert ssrl_format(text) == 1.0  # nothing in a passage can be taken for a tag
    assert NOTHING in text
    assert [text[s.start : s.end] for s in DIALECT.parse(text).spans if s.kind == "search"] == [
        "who?",
        "a b",
    ]
    with pytest.raises(DialectError, match="empty"):
        DIALECT.render_search(" ", ())
    bridge, target = DIALECT.force_answer("Quell")
    assert DIALECT.parse(bridge + target).action == Answer("Quell")


def test_it_writes_answers_only() -> None:
    assert DIALECT.renders == {Answer}
    with pytest.raises(DialectError, match="cannot write Search"):
        DIALECT.render_action(Search(("q",)))
    assert DIALECT.parse(DIALECT.render_action(Answer("x"))).action == Answer("x")


def test_names() -> None:
    assert get_dialect("search_r1_self+quoted").name == "search_r1_self+quoted"
    assert get_dialect(DIALECT.name) is DIALECT
    assert not set(SELF_SEARCH) & set(DIALECTS)
    assert {name.removesuffix("_self") for name in SELF_SEARCH} <= set(DIALECTS)
