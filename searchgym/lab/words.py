"""Words as tokens: a renderer without a tokenizer, for policies that are tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ..llms.base import Completion, Ids
from ..policies.renderer import Spelt
from ..types import Segment, TurnRequest

END = 0
"""The id that ends a turn."""
_WORD = re.compile(r"\s*\S+|\s+")


class WordRenderer:
    """Every word with the blanks before it is a token; new words get the next number."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": END}
        self._words: list[str] = [""]

    fingerprint = "lab words"

    def encode(self, text: str) -> Ids:
        return tuple(self._id(word) for word in _WORD.findall(text))

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        return tuple(
            written[s.id] if s.author == "policy" else self.encode(s.text) for s in request.segments
        )

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        return Spelt(self.encode(text), tuple(accumulate(map(len, _WORD.findall(text)))))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        return completion

    def text(self, ids: Sequence[int]) -> str:
        """The words of some ids."""
        return "".join(self._words[i] for i in ids)

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]
