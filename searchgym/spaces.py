"""A Gymnasium space of free text.

``gymnasium.spaces.Text`` fixes a character set and therefore rejects ordinary Unicode ("é"), which
passages contain; a space without ``sample`` cannot be checked. This one holds any string.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space

_WORDS = (
    "search", "answer", "what", "who", "where", "river", "city", "1987", "the", "of", "<search>",
    "</search>", "<answer>", "</answer>", "é", "日本", "?", "{", "}",
)  # fmt: skip


class FreeText(Space[str]):
    """Any string of at most ``max_length`` characters; ``sample`` draws a few words."""

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_length = int(max_length)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        n = int(self.np_random.integers(0, 12))
        words = [_WORDS[int(i)] for i in self.np_random.integers(0, len(_WORDS), size=n)]
        return " ".join(words)[: self.max_length]

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        return [str(s) for s in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash(("FreeText", self.max_length))

    def __repr__(self) -> str:
        return f"FreeText(max_length={self.max_length})"
