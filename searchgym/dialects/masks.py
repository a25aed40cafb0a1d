"""Loss masks over sampled tokens, from what was recorded when the text was parsed.

"The policy wrote it" and "it is trained on" are different things: in self-search the policy writes
its own search results (``searchgym.dialects.search_r1``), which must not be reinforced. Parsing
records such stretches as spans of kind ``MASKED``. Masks are computed from these spans and the
character ends of the sampled tokens; text is never searched, decoded or encoded again, so
repeated blocks, line breaks and tokens across a block's edge cannot shift them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import EpisodeError
from ..types import Span
from .tags import MASKED


def overlap(ends: Sequence[int], spans: Sequence[Span]) -> NDArray[np.bool_]:
    """Mask of the N tokens that share a character with any of the spans: (N,) bool.

    ``ends`` (N,): the character end of each token, ascending (``Completion.ends``). A token across
    a span's edge counts as inside. Tokens that complete no character (the first bytes of one that
    takes several tokens) belong to the character the next ones complete; those after the last
    character (end of sequence) to none.
    """
    end = np.asarray(ends, dtype=np.int64)  # (N,)
    if len(end) == 0:
        return np.zeros(0, dtype=np.bool_)
    if (np.diff(end) < 0).any() or end[0] < 0:
        raise EpisodeError(f"token ends must not decrease, got {list(ends)[:20]}")
    if not spans:
        return np.zeros(len(end), dtype=np.bool_)
    # tokens with equal starts are read as one: all of them made the characters that follow
    start = np.concatenate([[0], end[:-1]])  # (N,)
    reach = end[np.searchsorted(start, start, side="right") - 1]  # (N,) end of the last such token
    inside = np.zeros(len(end), dtype=np.bool_)
    for span in spans:
        if span.start < span.end:
            inside |= (start < span.end) & (reach > span.start)
    return inside


def loss_mask(
    text: str, spans: Sequence[Span], ends: Sequence[int], kinds: Sequence[str] = (MASKED,)
) -> NDArray[np.bool_]:
    """Mask of the N sampled tokens of ``text`` that are trained on: (N,) bool.

    False for every token that overlaps a span of one of ``kinds``, tokens across its edges
    included: what they say about the block outweighs the character or two outside it.

    Raises:
        EpisodeError: if ``ends`` or ``spans`` are not those of ``text``. A mask at the wrong place
            would go unnoticed.
    """
    chosen = [span for span in spans if span.kind in kinds]
    if len(ends) and ends[-1] != len(text):
        raise EpisodeError(
            f"the last token ends at character {ends[-1]} of a text of {len(text)}: these are not "
            "the tokens of this text"
        )
    for span in chosen:
        if not 0 <= span.start <= span.end <= len(text):
            raise EpisodeError(f"{span} lies outside its text of {len(text)} characters")
    return ~overlap(ends, chosen)
