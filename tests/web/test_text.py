"""Text of strangers as pages show it."""

from __future__ import annotations

import html
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from searchgym.web.pages import plain, shown

TAG = re.compile(r"<[^>]*>")


def test_markup_becomes_text() -> None:
    assert shown("<script>x</script> & 'q'") == "&lt;script&gt;x&lt;/script&gt; &amp; &#39;q&#39;"


def test_hidden_characters_are_named() -> None:
    made = shown("a\u202eb\x00c")
    assert 'title="right-to-left override">U+202E</span>' in made
    assert ">U+0000</span>" in made
    assert plain("a\u202eb\x00c") == "a[U+202E]b[U+0000]c"


def test_long_text_is_cut_and_says_so() -> None:
    assert shown("x" * 30, most=10) == 'xxxxxxxxxx<span class="cut">… 20 more characters</span>'
    assert plain("x" * 30, most=10) == "xxxxxxxxxx…"


@given(st.text(st.characters(), max_size=200))
def test_nothing_but_text_gets_through(text: str) -> None:
    made = str(shown(text))
    assert set(TAG.findall(made)) <= {t for t in TAG.findall(made) if t.startswith(("<span", "</"))}
    made.encode()  # halves of characters are gone
    for character in made:
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert not "\u202a" <= character <= "\u202e"
    words = html.unescape(re.sub(r"<span.*?</span>", "", made))
    assert all(c in text.replace("\r\n", "\n") for c in words)
