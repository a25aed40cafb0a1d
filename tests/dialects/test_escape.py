"""Cleaning, escaping and the passage cache on their own."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.dialects.escape import TAGS, PassageCache, clean, escape_tags, without_thoughts
from searchgym.types import Passage
from tests.fuzzing import FRAGMENTS

ANY = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=80),
    st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join),
)


@given(ANY)
def test_clean_text_can_be_encoded_and_printed(text: str) -> None:
    got = clean(text)
    got.encode()
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in got)
    assert clean(got) == got


@given(ANY)
def test_no_reserved_tag_survives(text: str) -> None:
    got = escape_tags(text)
    lowered = got.lower()
    for tag in TAGS:
        assert f"<{tag}>" not in lowered
        assert f"</{tag}>" not in lowered
    assert "<|" not in got
    assert escape_tags(got) == got
    if "&lt;" not in text:  # reversible, up to the cleaning
        assert got.replace("&lt;", "<") == clean(text)


def test_clean_keeps_lines_and_tabs() -> None:
    assert clean("a\tb\r\nc\rd\ne") == "a\tb\nc\nd\ne"
    assert clean("\x00\x1b[31m\x7f\x85red") == "[31mred"
    assert clean("\ud800x\udfff") == "?x?"
    same = "untouched é 日本"
    assert clean(same) is same


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("<answer>", "&lt;answer>"),
        ("</ Information >", "&lt;/ Information >"),
        ("<\u200banswer\u200b>", "&lt;\u200banswer\u200b>"),
        ("<an\u200bswer>", "&lt;an\u200bswer>"),
        ("<answer type='x'>", "&lt;answer type='x'>"),
        ("<\n/\tsearch", "&lt;\n/\tsearch"),
        ("<|endoftext|>", "&lt;|endoftext|>"),
        ("<<answer>>", "<&lt;answer>>"),
        ("＜answer＞", "&lt;answer＞"),
        ("﹤/answer﹥", "&lt;/answer﹥"),
        ("<ａnswer>", "&lt;ａnswer>"),
        ("＜／ａｎｓｗｅｒ＞", "&lt;／ａｎｓｗｅｒ＞"),
        ("<𝐚𝐧𝐬𝐰𝐞𝐫>", "&lt;𝐚𝐧𝐬𝐰𝐞𝐫>"),
        ("<a\U000e0020nswer>", "&lt;a\U000e0020nswer>"),
        ("<ａ\u200bn\U000e0021swer>", "&lt;ａ\u200bn\U000e0021swer>"),
        ("<ｔｏｏｌ＿ｃａｌｌ>", "&lt;ｔｏｏｌ＿ｃａｌｌ>"),
        ("<｜end▁of▁sentence｜>", "&lt;｜end▁of▁sentence｜>"),
        ("< ａ é <ａnswers> ＜ b", "< ａ é <ａnswers> ＜ b"),
        ("<answers> <re-search> <b>", "<answers> <re-search> <b>"),
        ("1 < 2 and &lt;answer>", "1 < 2 and &lt;answer>"),
    ],
)
def test_escape(text: str, safe: str) -> None:
    assert escape_tags(text) == safe


def test_no_character_of_unicode_disguises_a_tag() -> None:
    """Every character that NFKC makes a part of a tag's name, in that part's place."""
    parts = {tag[i:j] for tag in TAGS for i in range(len(tag)) for j in range(i + 1, len(tag) + 1)}
    plain = {c: unicodedata.normalize("NFKC", c).lower() for c in map(chr, range(0xA0, 0x30000))}
    disguises = {c: part for c, part in plain.items() if part in parts}
    assert len(disguises) > 400
    for sign, part in disguises.items():
        for tag in TAGS:
            for at in (m.start() for m in re.finditer(f"(?={part})", tag)):
                text = f"</{tag[:at]}{sign}{tag[at + len(part) :]}>"
                assert escape_tags(text) == f"&lt;{text[1:]}", (sign, tag)


def _passage(i: int, size: int = 5) -> Passage:
    return Passage(str(i), "t", "x" * size, "u")


def test_cache_is_bounded_and_keeps_what_is_used() -> None:
    written: list[str] = []

    def write(passage: Passage) -> str:
        written.append(passage.id)
        return passage.id + passage.text

    cache = PassageCache(write, size=20, longest=50)
    for i in range(1_000):
        assert cache[_passage(i)] == f"{i}xxxxx"
        assert cache[_passage(0)] == "0xxxxx"  # used all along, never forgotten
        assert len(cache) <= 20
    assert written.count("0") == 1
    assert len(written) == 1_000


def test_cache_forgets_the_long_and_never_mixes_up() -> None:
    written: list[Passage] = []

    def write(passage: Passage) -> str:
        written.append(passage)
        return passage.text

    cache = PassageCache(write, longest=50)
    for _ in range(2):
        assert cache[_passage(1, 51)] == "x" * 51
    assert (len(written), len(cache)) == (2, 0)
    for size in (3, 4, 3, 4):  # same id, other text
        assert cache[_passage(1, size)] == "x" * size
    assert len(written) == 4


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>"), ("<Think >", "</ think>"), ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"), ("<think>", "</thinking>"), ("<reasoning>", "</reasoning>"),
        ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<unused94>", "<unused95>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<|channel>thought\n", "<channel|>"),
    ],
)  # fmt: skip
def test_thoughts_are_not_said(opening: str, closing: str) -> None:
    cases = {
        f"{opening}a{closing}b": "b",
        f"x {opening}a{closing}b{opening}c{closing} d": "x b d",
        f"a{closing}b": "b",  # the prompt opened it
        f"a{closing}b{opening}c{closing}d": "bd",
        f"x{opening}a": "x",  # cut short
        f"{opening}a{opening}a{closing}a{closing}b": "b",
        f"{opening}no </reflection> or <b>{closing}b": "b",
        f"{opening}{closing}": "",
        "no </b> mark <b>": "no </b> mark <b>",
        "": "",
    }
    assert {text: without_thoughts(text) for text in cases} == cases
