"""A passage as candidates see it: title and text tokenised together, spans found, cached."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.text import bare_title
from searchgym.utils.english import Words, fold, tokenise

from .spans import Found, find_spans


class TokenizedPassage(NamedTuple):
    """A tokenised passage. Word index 0 … ``body`` - 1 is the title (sentence 0)."""

    title: str
    words: Words
    """Words of ``f"{title}. {text}"``."""
    body: int
    """Index of the text's first word."""
    offset: int
    """Characters before the text: a span's place in ``Passage.text`` is ``start - offset``."""
    spans: tuple[Found, ...]
    norms: tuple[str, ...]
    """Normalised text of each span."""
    bounds: NDArray[np.int64]
    """(M, 2) word indices of each span."""
    sentence_starts: NDArray[np.int64]
    """(S,) index of the first word of each sentence."""
    texts: tuple[str, ...]
    """Text of each span as it stands in the passage."""
    named: tuple[tuple[int, int], ...]
    """(span, its sentence) of each span that is a name, a quotation or a title."""

    def span_text(self, index: int) -> str:
        return self.texts[index]

    @property
    def text(self) -> str:
        """The passage's text without its title: with ``title``, what ``analyse`` was given."""
        return self.words.text[self.offset :]


def _join(title: Words, text: Words, joined: str, offset: int) -> Words:
    return Words(
        joined,
        title.start + tuple(s + offset for s in text.start),
        title.end + tuple(e + offset for e in text.end),
        title.lower + text.lower,
        title.stem + text.stem,
        title.gap[:-1] + (". ",) * bool(title.gap) + text.gap,
        title.capital + text.capital,
        (0,) * len(title.start) + text.sentence,
    )


@lru_cache(maxsize=60_000)
def analyse(title: str, text: str) -> TokenizedPassage:
    """Tokenise a passage and find its spans (a pure function of the passage, cached)."""
    head = tokenise(title)
    offset = len(title) + 2
    words = _join(head, tokenise(text, first_sentence=1), f"{title}. {text}", offset)
    body = len(head.start)
    spans, norms, texts = [], [], []
    for span in _with_title(title, words, body):
        surface = words.slice(span.first, span.last)
        norm = fold(surface)
        if norm:
            spans.append(span)
            norms.append(norm)
            texts.append(surface)
    sentence = np.asarray(words.sentence, dtype=np.int64)
    starts = np.flatnonzero(np.diff(sentence, prepend=-1)) if len(sentence) else sentence
    bounds = np.asarray([(s.first, s.last) for s in spans], dtype=np.int64).reshape(-1, 2)
    named = tuple(
        (i, words.sentence[s.first])
        for i, s in enumerate(spans)
        if s.kind in ("name", "quote", "title")
    )
    return TokenizedPassage(
        title, words, body, offset, tuple(spans), tuple(norms), bounds, starts, tuple(texts), named
    )


def _with_title(title: str, words: Words, body: int) -> Iterator[Found]:
    bare = bare_title(title)
    last = sum(1 for s in words.start[:body] if s < len(bare))
    if last:
        yield Found(0, last, "title")
        comma = title.find(", ")
        if 0 < comma < len(bare):
            before = sum(1 for s in words.start[:last] if s < comma)
            yield Found(0, before, "title_part")
    yield from find_spans(words, body)
