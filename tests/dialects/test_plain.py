"""One-line actions: what is read, what is refused."""

from __future__ import annotations

import pytest

from searchgym.dialects.base import get_dialect
from searchgym.types import (
    Invalid,
    Search,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "search q",
        "search:",
        "search:  \n",
        "answer: \x01",
        "judge: maybe",
        "research: q",
        "search: ##",
    ],
)
def test_malformed_lines_are_invalid(text: str) -> None:
    assert isinstance(get_dialect("plain").parse(text).action, Invalid)


def test_plain_lines() -> None:
    plain = get_dialect("plain")
    assert plain.parse("hm\n  SEARCH :  q \nanswer: x").action == Search(("q",))
    assert plain.parse("search: a ## b##").action == Search(("a", "b"))
    assert plain.parse("my answer: x").action == Invalid("no line like 'search: …' or 'answer: …'")
