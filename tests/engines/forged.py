"""A corpus of common words, and changes to the arrays of its saved index."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from searchgym.corpora import Corpus
from searchgym.types import Passage


def common_words() -> Corpus:
    """3,000 passages of eight of sixty words, some of which are in most."""
    draw = random.Random(3)
    words = [f"w{i}" for i in range(60)]
    share = [1 / (i + 1) for i in range(60)]
    texts = [" ".join(draw.choices(words, share, k=8)) for _ in range(3000)]
    return Corpus("c", [Passage(f"{i:05}", "", t, f"u:{i}") for i, t in enumerate(texts)])


def put(value: Any, where: Any) -> Callable[[np.ndarray[Any, Any]], None]:
    def change(array: np.ndarray[Any, Any]) -> None:
        array[where] = value

    return change
