"""Tokens to text: pieces join, ends are true, stop strings keep their whole token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.llms.tokens import Reader, cut, stop_end
from tests.llms import tiny

WORDS = tiny.tokenizer()


def decode(ids: list[int]) -> str:
    text: str = WORDS.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


@given(st.text(max_size=40))
def test_pieces_join_to_the_text(text: str) -> None:
    ids = WORDS(text)["input_ids"]
    reader = Reader(decode)
    for i in ids:
        reader.add(i)
    assert reader.finish() == decode(ids) == text
    assert list(reader.ends) == sorted(reader.ends)
    assert not ids or reader.ends[-1] == len(text)


@given(st.lists(st.integers(0, len(WORDS) - 1), max_size=30))
def test_any_tokens_even_broken_characters(ids: list[int]) -> None:
    """Random ids are mostly invalid UTF-8: the pieces still join to what decoding gives."""
    reader = Reader(decode)
    for i in ids:
        reader.add(i)
    assert reader.finish() == decode(ids)
    for n, end in enumerate(reader.ends, start=1):
        assert decode(ids[:n]).startswith(reader.text[:end].rstrip("�"))


def test_a_character_of_several_tokens_ends_with_its_last() -> None:
    ids = WORDS.convert_tokens_to_ids(["æ", "¼", "¢"])  # the three bytes of 漢
    reader = Reader(decode)
    for i in ids:
        reader.add(i)
    assert (reader.finish(), reader.ends) == ("漢", [0, 0, 1])


def test_a_tokenizer_that_drops_the_first_space() -> None:
    """Llama 2's: decoding " b" alone gives "b", which must not glue two words together."""
    pieces = {1: "▁a", 2: "▁b", 3: "c"}

    def llama(ids: list[int]) -> str:
        return "".join(pieces[i] for i in ids).replace("▁", " ").removeprefix(" ")

    alone, after = Reader(llama), Reader(llama, prompt=[1])
    for i in (2, 3, 1):
        alone.add(i)
        after.add(i)
    assert alone.finish() == "bc a"
    assert after.finish() == " bc a"
    assert after.ends == [2, 3, 5]


@pytest.mark.parametrize(
    ("text", "stops", "end"),
    [
        ("a</s>b", ("</s>",), 5),
        ("abc", ("c", "b"), 2),
        ("abc", ("abc", "b"), 2),
        ("abc", ("x",), None),
        ("abc", (), None),
    ],
)
def test_the_first_complete_stop_counts(text: str, stops: tuple[str, ...], end: int | None) -> None:
    assert stop_end(text, stops) == end


def test_the_straddling_token_is_kept_whole() -> None:
    assert cut([2, 5, 9], 4) == (2, (2, 4))
    assert cut([2, 5, 9], 5) == (2, (2, 5))
    assert cut([2, 5, 5, 9], 5) == (2, (2, 5))
    assert cut([2, 5, 9], 9) == (3, (2, 5, 9))
