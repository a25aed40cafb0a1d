"""Bytes on the wire equal ASearcher's."""

from __future__ import annotations

from searchgym.dialects.base import get_dialect
from searchgym.types import Access, Answer, Hit, Page, Passage, Search

LIMA = Passage("1", '"Lima"', "Lima is the capital.", "https://w.org/Lima")
LONG = Passage("2", "Long", "x" * 6_000, "https://w.org/Long")


def test_result_bytes() -> None:
    dialect = get_dialect("asearcher")
    shown = dialect.render_hits([("q", (Hit(LIMA, 2.0), Hit(LONG, 1.0)))])
    assert shown == (
        '\n\n<information>\n[Doc 1](https://w.org/Lima):\n"Lima"\nLima is the capital.\n\n'
        "[Doc 2](https://w.org/Long):\nLong\n" + "x" * 4_995 + "\n</information>\n<think>\n"
    )
    assert dialect.render_hits([("q", ())]) == (
        "\n\n<information>\nNo search results are found.\n</information>\n<think>\n"
    )


def test_page_bytes() -> None:
    dialect = get_dialect("asearcher")
    page = Page("https://w.org/Long", "Long", LONG.text, ("2",))
    assert dialect.render_page(page, "abc", part=2, parts=3) == (
        "\n\n<information>\n>>>> Page 2 >>>>\n\nabc\n</information>\n<think>\n"
    )
    assert dialect.render_stub("Long", page.url, "a", part=2) == (
        "\n\n<information>\n>>>> Page 2 >>>>\n\na\n</information>\n<think>\n"
    )
    assert dialect.render_missing("https://w.org/None") == (
        "\n\n<information>\nNo More Information is Found for this URL.\n</information>\n<think>\n"
    )


def test_policy_text_continues_the_open_thought() -> None:
    dialect = get_dialect("asearcher")
    assert dialect.question("Who?").endswith("\n<think>\n")
    text = dialect.render_action(Access("https://w.org/Lima"), "Let me read.")
    assert text == "Let me read.\n</think>\n\n<access> https://w.org/Lima </access>"
    thought, url = dialect.parse(text).spans
    assert text[thought.start : thought.end] == "Let me read."
    assert text[url.start : url.end] == "https://w.org/Lima"
    assert dialect.render_action(Answer("x")) == "</think>\n\n<answer> x </answer>"


def test_the_first_closed_tag_counts() -> None:
    dialect = get_dialect("asearcher")
    assert dialect.stop == ("</search>", "</access>", "</answer>")
    both = "<answer>a</answer><search>q</search>"
    assert dialect.parse(both).action == Answer("a")
    assert dialect.parse("</answer> <search>q</search>").cut == len("</answer>")
    assert dialect.parse("<access>u</access><search>q</search>").action == Access("u")
    assert dialect.parse("t</think><search>q</search>").action == Search(("q",))
