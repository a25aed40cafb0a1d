"""Passages by the million, with the lengths and the word frequencies of encyclopaedia passages.

Measured on 44,659 passages of four open question-answering sets (4.1 million words): the share of
the word of rank r falls as a power of r whose exponent changes at ranks 10, 100, 1,000 and 10,000
(``SHARES``). Words are drawn one by one, so passages have no topic, and there are more distinct
words than in real ones (27 n^0.555 of n), which makes the index larger. Questions have the length
and the ranks of real ones (1,746 of two sets): ``QUESTION_RANKS`` gives the share of words, stop
words apart, in each half-decade of rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from searchgym.engines import LUCENE_STOPWORDS
from searchgym.types import Passage

RANKS = np.array([1, 10, 100, 1_000, 10_000, 8_000_000], np.float64)
SHARES = np.array([7.04e-2, 9.08e-3, 8.14e-4, 1.22e-4, 7.29e-6])
TAIL = -1.58
"""Exponent beyond rank 10,000."""
QUESTION_RANKS = {
    (33, 100): 0.21, (100, 316): 0.144, (316, 1_000): 0.228, (1_000, 3_162): 0.18,
    (3_162, 10_000): 0.132, (10_000, 31_623): 0.072, (31_623, 100_000): 0.034,
}  # fmt: skip
WORDS = 100
"""Words of a passage."""
_BLOCK = 1_000
_ONSETS, _VOWELS = "bdfgklmnprtv", "aeiou"
_SYLLABLES = [onset + vowel for onset in _ONSETS for vowel in _VOWELS]


class Words:
    """The word of each rank: stop words first, then strings of syllables; made when first used."""

    def __init__(self) -> None:
        self._known = dict(enumerate(sorted(LUCENE_STOPWORDS, key=len), start=1))

    def __getitem__(self, rank: int) -> str:
        word = self._known.get(rank)
        if word is None:
            left, word = rank + 60, ""
            while left:
                left, digit = divmod(left, len(_SYLLABLES))
                word += _SYLLABLES[digit]
            word += "n"  # an ending that no stemmer takes off
            if rank < 1 << 20:
                self._known[rank] = word
        return word


def segments() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exponent of each stretch of ranks, and its share of all words."""
    inner = np.diff(np.log(SHARES)) / np.diff(np.log(RANKS[:-1]))
    slopes = np.append(inner, TAIL)
    mass = []
    for start, low, high, slope in zip(SHARES, RANKS[:-1], RANKS[1:], slopes, strict=True):
        power = slope + 1
        mass.append(start * low**-slope * (high**power - low**power) / power)
    return slopes, np.array(mass) / sum(mass)


def draw(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Draw so many ranks from the law."""
    slopes, mass = segments()
    which = rng.choice(len(mass), count, p=mass)
    power = slopes[which] + 1
    low, high = RANKS[which] ** power, RANKS[which + 1] ** power
    return ((low + rng.random(count) * (high - low)) ** (1 / power)).astype(np.int64)


def passages(count: int, seed: int = 0) -> Iterator[Passage]:
    """Yield passages, the same for a seed; ids have eight digits and ascend."""
    words = Words()
    for start in range(0, count, _BLOCK):
        rng = np.random.default_rng([seed, start])
        ranks = draw(rng, _BLOCK * WORDS).reshape(_BLOCK, WORDS).tolist()
        for place, row in enumerate(ranks[: count - start], start=start):
            text = [words[rank] for rank in row]
            yield Passage(f"{place:08}", " ".join(text[:2]), " ".join(text[2:]), f"w:{place}")


def questions(count: int, seed: int = 1) -> list[str]:
    """Make questions: 5 to 14 words, 7.8 on average, with the ranks of real ones."""
    words, rng = Words(), np.random.default_rng(seed)
    edges = np.array(list(QUESTION_RANKS), np.float64)
    weights = np.array(list(QUESTION_RANKS.values()))
    made = []
    for _ in range(count):
        length = 5 + min(9, rng.geometric(0.27) - 1)
        low, high = edges[rng.choice(len(edges), length, p=weights / weights.sum())].T
        ranks = np.exp(rng.uniform(np.log(low), np.log(high))).astype(int)
        made.append("what is the " + " ".join(words[rank] for rank in ranks.tolist()))
    return made
