"""Evidence dispersion: the least number of passages that jointly state every used fact.

Axis (b) of REDSearcher's difficulty (arXiv 2602.14234).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import combinations
from typing import TypeVar

EXACT_DOCUMENTS = 15

D = TypeVar("D", bound=Hashable)


def minimal_cover(stated: Sequence[Collection[D]]) -> tuple[D, ...]:
    """Documents that jointly cover every fact; ``stated[i]`` lists those that state fact i.

    A least cover (exact up to ``EXACT_DOCUMENTS`` distinct documents, else greedy), in the order
    in which the documents first occur. ``ValueError`` if a fact is stated nowhere.
    """
    documents: dict[D, int] = {}
    for i, where in enumerate(stated):
        if not where:
            raise ValueError(f"fact {i} is stated in no document, so no cover exists")
        for document in where:
            documents[document] = documents.get(document, 0) | 1 << i
    everything = (1 << len(stated)) - 1
    if len(documents) > EXACT_DOCUMENTS:
        return _greedy(documents, everything)
    # what only one document states is read there: such documents are in every cover
    forced = {next(iter(where)) for where in stated if len(set(where)) == 1}
    free = [document for document in documents if document not in forced]
    for size in range(len(free) + 1):
        for chosen in combinations(free, size):
            covered = 0
            for document in (*forced, *chosen):
                covered |= documents[document]
            if covered == everything:
                return tuple(d for d in documents if d in forced or d in chosen)
    raise AssertionError("unreachable: all documents together cover every fact")


def _greedy(documents: dict[D, int], everything: int) -> tuple[D, ...]:
    chosen: list[D] = []
    left = everything
    while left:
        best = max(documents, key=lambda d: (documents[d] & left).bit_count())
        chosen.append(best)
        left &= ~documents[best]
    return tuple(d for d in documents if d in chosen)


def dispersion(stated: Sequence[Collection[D]]) -> int:
    """Size of ``minimal_cover``: 1 if one page states everything, 0 if nothing is used."""
    return len(minimal_cover(stated))
