"""Axis ``distractors``: irrelevant passages among the hits."""

from __future__ import annotations

from ..corpora.corpus import Corpus
from ..errors import EngineError
from ..seeding import derive
from ..types import Charged, Failure, Passage, Query, Ranking
from .degraded.engine import ranked

DRAWN = 8
"""Candidates per distractor; the one that shares most words with the query is taken, because a
passage that shares no word is not a useful distractor."""


def distracted(
    query: Query, ranking: Ranking | Failure, corpus: Corpus | None
) -> Ranking | Failure:
    """``ranking`` with ``ctx.params["distractors"]`` further passages of ``corpus`` at random
    ranks: no hit is lost, so there may be more than k. Those that it holds already are not drawn
    again. Which and where is a pure function of the query's key. They are told in
    ``meta["degraded"]["distractors"]``. A query that finds nothing still finds nothing.

    Raises:
        EngineError: there is no corpus to take them from.
    """
    count = int(query.ctx.params.get("distractors", 0))
    if not count or isinstance(ranking, Failure) or not ranking:
        return ranking
    if corpus is None:
        raise EngineError(
            "the parameter 'distractors' needs a corpus to take passages from: "
            "SearchTool(engine, k, corpus)"
        )
    key, passages = query.ctx.key, [hit.passage for hit in ranking]
    shown, told = {p.id for p in passages}, []
    for i in range(count):
        if (new := _draw(query, corpus, derive(key, "distractor", i), shown)) is None:
            break  # the corpus holds nothing else
        at = derive(key, "distractor rank", i) % (len(passages) + 1)
        passages.insert(at, new)
        shown.add(new.id)
        told.append(new.id)
    hits = ranked(passages, [hit.score for hit in ranking], len(passages))
    meta = dict(getattr(ranking, "meta", {}))
    meta["degraded"] = {**meta.get("degraded", {}), "distractors": told}
    return Charged(hits, getattr(ranking, "cost", 0.0), meta)


def _draw(query: Query, corpus: Corpus, key: int, shown: set[str]) -> Passage | None:
    """The best of :data:`DRAWN` passages not shown yet; of equal ones the first drawn."""
    words = set(query.text.casefold().split())
    best: Passage | None = None
    most = -1
    for j in range(DRAWN):
        passage = corpus[derive(key, j) % len(corpus)]
        if passage.id not in shown:
            shared = len(words.intersection(f"{passage.title} {passage.text}".casefold().split()))
            if shared > most:
                best, most = passage, shared
    if best is None and len(shown) < len(corpus):  # a corpus of a few pages: look at all
        start = derive(key, "any")
        everyone = (corpus[(start + i) % len(corpus)] for i in range(len(corpus)))
        best = next((p for p in everyone if p.id not in shown), None)
    return best
