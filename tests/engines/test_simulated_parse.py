"""What a simulator writes becomes documents, whatever it writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.engines.simulated.documents import (
    Document,
    as_passage,
    parse_documents,
    write_documents,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Doc 1: A | b\n\n\n\nDoc 2: C | d", [("A", "b"), ("C", "d")]),
        ("Doc 1: A | b\nc\n\n  d\nDoc 2: e", [("A", "b c d"), ("", "e")]),
        ("Doc 1: a Doc 2: b Doc 3: c Doc 4: gone Doc 5: too", [("", "a"), ("", "b"), ("", "c")]),
        ("Doc 1(Title: X (film)) y\nDoc 2 (Title: Z) w", [("X (film)", "y"), ("Z", "w")]),
        ("Doc 1: Title: Foo\nText: bar", [("Foo", "bar")]),
        ("Sure, here they are:\n**Doc 1:** a\n**Doc 2:** b", [("", "a"), ("", "b")]),
        ("Document 1. a\nDocument 2. b", [("", "a"), ("", "b")]),
        ("the model goes on after our label\nDoc 2: b", [("", "the model goes on after our label"),
                                                        ("", "b")]),
        ("no label at all", [("", "no label at all")]),
        ("Doc 1: see Doc 7: it is there\nDoc 2: b", [("", "see Doc 7: it is there"), ("", "b")]),
        ("Doc 1: same\nDoc 2: same\nDoc 3: other", [("", "same"), ("", "other")]),
        ("Doc 1:\nDoc 2:\nDoc 3: c", [("", "c")]),
        ("Doc 1: only a title |", [("", "only a title")]),
        ("Doc 4: all of it is beyond k", []),
        ("<think>\nDoc 1: should say X, Doc 2: other, Doc 4: no.\n</think>\nDoc 1: A | b\nDoc 2: c",
         [("A", "b"), ("", "c")]),
        ("First Doc 1: X, then Doc 2: Y.\n</think>\nDoc 1: A | b", [("A", "b")]),
        ("<think>Doc 1: X. Doc 2: Y", []),
        ("", []),
        ("\n \n", []),
        ("\x00\ufffd", []),
    ],
)  # fmt: skip
def test_variations(text: str, wanted: list[tuple[str, str]]) -> None:
    assert parse_documents(text, 3) == [Document(*d) for d in wanted]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["Doc 1:", "Doc 2(Title: ", "Doc 3:", "Doc 99999", "|", "\n\n", ")",
                             "Title:", "**", "Document 2.", "doc"]),
            st.text(max_size=12),
        ),
        max_size=30,
    ),
    st.integers(-1, 6),
)  # fmt: skip
def test_any_text_gives_at_most_k_documents(pieces: list[str], k: int) -> None:
    found = parse_documents("".join(pieces), k)
    assert len(found) <= max(k, 0)
    assert all(d.text and "\n" not in d.text + d.title for d in found)
    assert len(set(found)) == len(found)
    for d in found:
        assert as_passage(d).url.endswith(as_passage(d).id.removeprefix("sim-"))
        assert as_passage(d).title


def test_what_is_written_is_read_back() -> None:
    documents = [Document("A (film)", "It is red. Doc 7 is not."), Document("B", "c; d: e")]
    assert parse_documents(write_documents(documents), 2) == documents
    assert parse_documents(write_documents(documents, "Ann Bell"), 2) == documents


def test_ids_are_digests_of_what_a_document_says() -> None:
    one, twin = as_passage(Document("A", "b")), as_passage(Document("A", "b"))
    assert one == twin
    assert len({as_passage(Document(*d)).id for d in (("A", "b"), ("A", "c"), ("Ab", ""))}) == 3
    assert as_passage(Document("", "a b c d e f g")).title == "a b c d e f"
