"""Corpora of drawn words."""

from __future__ import annotations

import numpy as np

from searchgym.corpora import Corpus
from searchgym.types import Passage

WORDS = "red blue green fox house river été 日本 city boat old new north south".split()


def corpus_of(n: int, *, name: str = "c", seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(2, 9)))) for _ in range(n)]
    # Ids whose order differs from the order of the texts.
    keys = [f"{(7919 * i) % 10007:05}" for i in range(n)]
    rows = enumerate(zip(keys, texts, strict=True))
    return Corpus(name, [Passage(key, f"T{i}", text, f"u:{i}") for i, (key, text) in rows])
