"""Degrades rankings: hits for other queries, copies, random order."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from ...corpora.corpus import Corpus
from ...seeding import derive
from ...types import CallContext, Hit, Passage, Query, Ranking
from .fakes import invent
from .rates import strikes

_DECOYS = 10_000
"""Ranks looked at to decide whether another query is asked. Deeper ones, if noise strikes nowhere
above them, are filled from the corpus: a k of a billion must not cost a billion draws."""


def noisy_ranks(rate: float, key: int, n: int) -> list[int]:
    """Choose which of the first ``n`` ranks are replaced."""
    return [i for i in range(n) if strikes(rate, key, "noise", i)]


def needs_decoys(rate: float, query: Query) -> bool:
    """Check whether any of the ranks a query may get is replaced."""
    ranks = range(min(query.k, _DECOYS))
    return rate > 0 and any(strikes(rate, query.ctx.key, "noise", i) for i in ranks)


def decoy_query(query: Query, corpus: Corpus) -> Query:
    """Another query: the title (or, without one, the first words) of a passage drawn by the key."""
    key = derive(query.ctx.key, "decoy")
    passage = corpus[key % len(corpus)]
    text = passage.title or " ".join(passage.text.split()[:8])
    return Query(text, query.k, CallContext(key, query.ctx.episode_id, {}))


def replacements(
    decoys: Ranking, corpus: Corpus, key: int, taken: Collection[str]
) -> Iterator[Passage]:
    """Passages for noisy ranks: the other query's hits, then passages drawn from the corpus; never
    one that the query itself finds."""
    used = set(taken)
    for passage in (hit.passage for hit in decoys):
        if passage.id not in used:
            used.add(passage.id)
            yield passage
    start, n = derive(key, "filler"), len(corpus)
    for i in range(n):
        passage = corpus[(start + i) % n]
        if passage.id not in used:
            used.add(passage.id)
            yield passage


def mirror(passage: Passage, corpus: Corpus) -> Passage:
    """A hit's copy on another site (or, if it is not of the corpus, at the same address)."""
    if passage.id in corpus:
        made = invent("mirror", passage.title, corpus.position(passage.id))
        return passage._replace(id=made.id, url=made.url)
    return passage._replace(id=f"{passage.id}~copy")


def shuffled(passages: Sequence[Passage], key: int) -> list[Passage]:
    """A uniformly random order."""
    order = sorted(range(len(passages)), key=lambda i: derive(key, "shuffle", i))
    return [passages[i] for i in order]


def ranked(passages: Sequence[Passage], scores: Sequence[float], k: int) -> tuple[Hit, ...]:
    """Passages in this order with the ranking's own scores (the last one again where there are
    more passages). Where a tie by id would undo the order, the score gives way by one unit in the
    last place."""
    hits: list[Hit] = []
    for i, passage in enumerate(passages[: max(k, 0)]):
        score = scores[min(i, len(scores) - 1)]
        if hits:
            above = hits[-1]
            score = min(score, above.score)
            if score == above.score and passage.id < above.passage.id:
                score = math.nextafter(score, -math.inf)
        hits.append(Hit(passage, score))
    return tuple(hits)
