"""Finding entities by name, other name or kind, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
EXACT, BEGINS, WORD_BEGINS, WITHIN = range(4)
"""Grades of how well a name fits, best first."""


class NameIndex:
    """Names of entities 0..N-1, and what kind each is of.

    Args:
        names: (N,) what each is called, its title first.
        kinds: (N,) place of its kind.
    """

    def __init__(self, names: Sequence[Sequence[str]], kinds: Sequence[int]) -> None:
        self._names = [tuple(name.casefold() for name in called) for called in names]
        self._kinds = kinds

    def find(self, text: str, kind: int | None = None) -> list[int]:
        """Entities one of whose names holds ``text`` (case ignored): equal names first, then those
        that begin so, that have a word that begins so, that hold it; short names first. An empty
        text finds all, in order."""
        asked = " ".join(text.casefold().split())
        of_kind = (e for e, k in enumerate(self._kinds) if kind is None or k == kind)
        if not asked:
            return list(of_kind)
        ranks: list[tuple[int, int, int]] = []
        for entity in of_kind:
            fits = [(f, len(n)) for n in self._names[entity] if (f := _fit(asked, n)) is not None]
            if fits:
                ranks.append((*min(fits), entity))
        return [entity for _, _, entity in sorted(ranks)]


def _fit(asked: str, name: str) -> int | None:
    if asked not in name:
        return None
    if asked == name:
        return EXACT
    if name.startswith(asked):
        return BEGINS
    starts = (word.start() for word in _WORD.finditer(name))
    return WORD_BEGINS if any(name.startswith(asked, at) for at in starts) else WITHIN
