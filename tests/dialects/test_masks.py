"""Masks come from recorded spans and token ends, never from text (SSRL's mask came from text)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.dialects.base import get_dialect
from searchgym.dialects.masks import MASKED, loss_mask, overlap
from searchgym.errors import EpisodeError
from searchgym.llms import Reader
from searchgym.types import Span
from tests.llms import tiny

DIALECT = get_dialect("search_r1_self")
BLOCK = "<information>\nDoc 1\n\nDoc 2 <answer>x</answer>\nDoc 3: née 東京\n</information>"
TEXT = (
    f"<think>a</think><search>q</search>{BLOCK}<think>b</think><search>q</search>{BLOCK}\n"
    "<think>Łódź</think><answer>東京</answer>"
)


def sampled(text: str) -> tuple[list[int], list[int], object]:
    """(ids, ends, tokenizer) as a generator records them, end of sequence included."""
    words = tiny.tokenizer()
    ids = words.encode(text)
    reader = Reader(lambda i: words.decode(i, skip_special_tokens=True))
    for token in ids:
        reader.add(token)
    reader.silent()
    assert reader.text == text
    return [*ids, words.eos_token_id], reader.ends, words


def expected(text: str, ends: list[int], spans: tuple[Span, ...]) -> list[bool]:
    """Character by character, the slow way: trained unless a character of it is in a block."""
    inside = set()
    for span in spans:
        if span.kind == MASKED:
            inside |= set(range(span.start, span.end))
    out, start = [], 0
    for i, end in enumerate(ends):
        reach = end if end > start else next((e for e in ends[i:] if e > start), start)
        out.append(not inside & set(range(start, reach)))
        start = end
    return out


def test_multi_line_and_repeated_blocks_are_masked_and_nothing_else() -> None:
    ids, ends, words = sampled(TEXT)
    spans = DIALECT.parse(TEXT).spans
    mask = loss_mask(TEXT, spans, ends)
    assert mask.tolist() == expected(TEXT, ends, spans)
    trained = words.decode([i for i, m in zip(ids, mask, strict=True) if m])
    for gone in ("Doc", "née", "information>"):
        assert gone not in trained
    for kept in ("Łódź", "<answer>", "<search>q"):
        assert kept in trained
    first, second = (s for s in spans if s.kind == MASKED)
    covered = [(0 if i == 0 else ends[i - 1], e) for i, e in enumerate(ends)]
    for block in (first, second):
        assert any(a <= block.start < b for a, b in covered)
        assert not any(m for (a, b), m in zip(covered, mask, strict=True)
                       if a < block.end and b > block.start)  # fmt: skip
    assert mask[-1], "the end of sequence is the policy's own"


def test_one_token_per_character_gives_the_block_exactly() -> None:
    spans = DIALECT.parse(TEXT).spans
    mask = loss_mask(TEXT, spans, range(1, len(TEXT) + 1))
    assert "".join(c for c, m in zip(TEXT, mask, strict=True) if m) == TEXT.replace(BLOCK, "")


def test_a_token_across_an_edge_is_masked_whole() -> None:
    text = "ab<information>c</information>de"
    spans = DIALECT.parse(text).spans
    assert spans[0] == Span(MASKED, 2, 30)
    #      a | b< | …> | c</ | …ion>d | e
    ends = (1, 3, 15, 18, 31, 32)
    assert loss_mask(text, spans, ends).tolist() == [True, False, False, False, False, True]
    # edges that fall between tokens: the neighbours are trained on
    assert loss_mask(text, spans, (2, 30, 32)).tolist() == [True, False, True]


def test_tokens_that_complete_no_character() -> None:
    span = [Span(MASKED, 2, 4)]
    # two tokens of a character before, three of one inside, two of one behind, end of sequence
    ends = [0, 1, 2, 2, 2, 3, 4, 4, 5, 5]
    assert overlap(ends, span).tolist() == [
        False, False, False, True, True, True, True, False, False, False,
    ]  # fmt: skip
    assert overlap([4, 4], span).tolist() == [True, False]  # end of sequence right behind a block


def test_a_block_that_was_cut_off_is_masked_to_the_end() -> None:
    text = "<search>q</search><information>\nDoc 1"
    mask = loss_mask(text, DIALECT.parse(text).spans, range(1, len(text) + 1))
    assert "".join(c for c, m in zip(text, mask, strict=True) if m) == "<search>q</search>"


@given(st.text(alphabet="aé東<>/", max_size=30), st.randoms(use_true_random=False))
def test_any_text_any_tokens(filling: str, rng: object) -> None:
    text = f"{filling}<information>{filling}</information>{filling}<answer>a</answer>"
    spans = DIALECT.parse(text).spans
    ends = sorted({*(rng.randrange(len(text)) for _ in range(12)), len(text)})  # type: ignore[attr-defined]
    ends = sorted(ends + ends[:3])
    mask = loss_mask(text, spans, ends)
    assert mask.dtype == np.bool_
    assert mask.tolist() == expected(text, ends, spans)


def test_other_kinds_can_be_masked_too() -> None:
    text = "<think>a</think><answer>b</answer>"
    spans = DIALECT.parse(text).spans
    mask = loss_mask(text, spans, range(1, len(text) + 1), kinds=("think",))
    assert np.flatnonzero(~mask).tolist() == [7]


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(EpisodeError, match="not the tokens of this text"):
        loss_mask("abc", (), (1, 2))
    with pytest.raises(EpisodeError, match="outside its text"):
        loss_mask("abc", (Span(MASKED, 1, 5),), (3,))
    with pytest.raises(EpisodeError, match="must not decrease"):
        loss_mask("abc", (), (2, 1, 3))
    assert loss_mask("", (), ()).tolist() == []
