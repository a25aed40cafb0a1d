"""Exchanging words in texts by a table: whole words, their letter case kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import DataError

_WORD = re.compile(r"[^\W\d_]+")


class WordTable:
    """Exchanges words for others, one for one, wherever they stand in a text.

    Keys and values are in lower case, and no two words become the same, so that what was equal
    stays equal, what was different stays different, and the table can be read backwards.

    Raises:
        DataError: two words become the same one, or a key or value is no lower-case word.
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = dict(words)
        for word in (*self.words, *self.words.values()):
            if not _WORD.fullmatch(word) or word != word.lower():
                raise DataError(f"a table of words has lower-case words only, got {word!r}")
        if len({*self.words.values()}) != len(self.words):
            raise DataError("two words of the table become the same one; they must differ")

    def __call__(self, text: str) -> str:
        """The text with its words exchanged: "Marn" as a title, "MARN" in capitals, "marn"."""
        return _WORD.sub(self._exchange, text)

    def inverse(self) -> WordTable:
        """The table that leads back. Exact where no new word stood in the texts before."""
        return WordTable({new: old for old, new in self.words.items()})

    def _exchange(self, match: re.Match[str]) -> str:
        word = match[0]
        other = self.words.get(word.lower())
        if other is None:
            return word
        if word.isupper() and len(word) > 1:
            return other.upper()
        return other.capitalize() if word[0].isupper() else other


def words_of(text: str) -> list[str]:
    """The words of a text, as a table exchanges them."""
    return _WORD.findall(text)
