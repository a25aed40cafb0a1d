"""JSON tool calls: what is read, what is refused."""

from __future__ import annotations

import pytest

from searchgym.dialects.base import get_dialect
from searchgym.types import (
    Answer,
    Invalid,
    Search,
)
from tests.dialects.common import check


@pytest.mark.parametrize("name", ["json_tools", "json_tools+parallel"])
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"search"',
        "{}",
        '{"name": "search"}',
        '{"name": "search", "arguments": []}',
        '{"name": "search", "arguments": "["}',
        '{"name": "search", "arguments": {}}',
        '{"name": "search", "arguments": {"query": 3}}',
        '{"name": "search", "arguments": {"query": "  "}}',
        '{"name": "search", "arguments": {"queries": []}}',
        '{"name": "search", "arguments": {"queries": ["", " "]}}',
        '{"name": "search", "arguments": {"queries": ["a", 1]}}',
        '{"name": "fly", "arguments": {"query": "q"}}',
        '{"name": ["search"], "arguments": {"query": "q"}}',
        '{"name": "judge", "arguments": {"useful": "yes"}}',
        '{"name": "answer", "arguments": {"answer": null}}',
        '<tool_call>{"name": "search", "arguments": {"query": "q"}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
    ],
)
def test_malformed_calls_are_invalid(name: str, body: str) -> None:
    dialect = get_dialect(name)
    text = f"<tool_call>{body}</tool_call>"
    parsed = dialect.parse(text)
    assert isinstance(parsed.action, Invalid), parsed
    assert parsed.cut == len(text)
    check(parsed, text, dialect)


@pytest.mark.parametrize("text", ["", "<tool_call>{}", "{}</tool_call>", "x</answer>", "search: q"])
def test_calls_need_both_tags(text: str) -> None:
    assert isinstance(get_dialect("json_tools").parse(text).action, Invalid)


def test_json_calls() -> None:
    one, many = get_dialect("json_tools"), get_dialect("json_tools+parallel")
    two = '{"name": "search", "arguments": {"queries": ["a", "b"]}}'
    assert isinstance(one.parse(f"<tool_call>{two}</tool_call>").action, Invalid)
    assert many.parse(f"<tool_call>{two}</tool_call>").action == Search(("a", "b"))
    call = '<tool_call>{{"name": "search", "args": {{"query": "{}"}}}}</tool_call>'
    row = call.format("a") + "\n" + call.format("b\nc") + " then " + call.format("d")
    assert one.parse(row).action == Search(("a",))
    assert one.parse(row).cut == len(call.format("a"))
    assert many.parse(row).action == Search(("a", "b\nc"))
    assert many.parse(row).cut == row.index(" then")
    wrapped = '<tool_call>{"name":"search","arguments":"{\\"query\\": \\"q\\"}"}</tool_call>'
    assert one.parse(wrapped).action == Search(("q",))
    assert one.parse("<answer> x </answer>").action == Answer("x")
    text = '<tool_call>{"name": "search", "arguments": {"query": "query"}}</tool_call>'
    (span,) = one.parse(text).spans
    assert text[span.start : span.end] == "query"
    assert span.start > text.index('"query":') + len('"query":')  # the value, not the key
