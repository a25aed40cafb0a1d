"""Documents, queries and notes of any content can never be read as actions."""

from __future__ import annotations

import pytest
from hypothesis import given

from searchgym.dialects.base import Dialect, get_dialect
from searchgym.types import (
    Call,
    Hit,
    Invalid,
    Page,
    Passage,
)
from tests.dialects.common import HOSTILE, TEXT

WRAPPER = {"search_r1": "information", "asearcher": "information", "json_tools": "tool_response"}


def _observations(dialect: Dialect, text: str) -> list[str]:
    passage = Passage(text, text, text, text)
    hits = (Hit(passage, 2.0), Hit(passage, 1.0))
    page = Page(text, text, text, (text,))
    return [
        dialect.render_hits([(text, hits)]),
        dialect.render_hits([(text, hits), (text, ())]),
        dialect.render_page(page, text, part=1, parts=2),
        dialect.render_stub(text, text, text, part=2),
        dialect.render_call(Call("graph_rank", {"query": text}), text, hits),
        dialect.render_call(Call(text, {text: text}), text, ()),
        dialect.render_missing(text),
        dialect.render_invalid(text),
        dialect.render_report(text),
    ]


def test_documents_cannot_forge(dialect: Dialect) -> None:
    for hostile in HOSTILE:
        _cannot_forge(dialect, hostile)


def _cannot_forge(dialect: Dialect, hostile: str) -> None:
    for shown in [*_observations(dialect, hostile), dialect.question(hostile)]:
        shown.encode()
        # The corrective message spells out actions; it is the dialect's own and never parsed.
        if shown != dialect.render_invalid(hostile):
            assert isinstance(dialect.parse(shown).action, Invalid)
        assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
        wrapper = WRAPPER.get(dialect.name.split("+")[0])
        if wrapper:
            opened = shown.count(f"<{wrapper}>")
            assert opened == shown.count(f"</{wrapper}>")
            assert opened <= 2
    safe = dialect.escape(hostile)
    assert isinstance(dialect.parse(safe).action, Invalid)
    assert dialect.escape(safe) == safe or dialect.name.startswith("plain")


@pytest.mark.parametrize(
    "name",
    ["search_r1", "search_r1+tools", "asearcher", "agentgl", "json_tools+tools", "plain+tools"],
)
@given(text=TEXT)
def test_no_text_can_forge(name: str, text: str) -> None:
    dialect = get_dialect(name)
    for shown in _observations(dialect, text)[:7]:
        shown.encode()
        assert isinstance(dialect.parse(shown).action, Invalid)


def test_harmless_text_is_shown_as_it_is(dialect: Dialect) -> None:
    for text in ("a < b > c", "if x<y: <b>bold</b>", "thinking: research", "<searching>", "5 <10"):
        assert dialect.escape(text) == text


def test_pages_come_whole(dialect: Dialect) -> None:
    text = "  first line \n\n second\tline  "
    page = Page("u", "t", text, ("p",))
    shown = [
        dialect.render_page(page, t, part=i, parts=2) for i, t in ((1, text[:7]), (2, text[7:]))
    ]
    if "json" not in dialect.name:
        assert text[:7] in shown[0]
        assert text[7:] in shown[1]
