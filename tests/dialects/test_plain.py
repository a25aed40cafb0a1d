"""One-line actions: what is read, what is refused."""

from __future__ import annotations

import re

import pytest

from searchgym.dialects.base import get_dialect
from searchgym.dialects.plain import without_forms
from searchgym.types import Answer, Invalid, Search

from .common import VIEW


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
    assert plain.parse("my answer: x").action == Invalid("no line is an action")


def test_a_correction_shows_an_action_that_every_episode_takes() -> None:
    for name in ("plain", "plain+tools"):
        dialect = get_dialect(name)
        for reason in (dialect.parse("hm").action.reason, "search is not available"):
            examples = re.findall(r"'(.*?)'", dialect.render_invalid(reason))
            assert [type(dialect.parse(each).action) for each in examples] == [Answer]


@pytest.mark.parametrize("name", ["plain", "plain+tools"])
def test_the_task_and_its_limits_are_told_without_the_forms(name: str) -> None:
    told = without_forms(get_dialect(name).instructions(VIEW))
    assert told.startswith("Answer the question")
    assert told.endswith("answer: unanswerable.")
    assert "5 turns" in told
    assert "search" not in told
    assert without_forms("Plan a trip.\n") == "Plan a trip."
