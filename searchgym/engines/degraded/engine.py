"""Wrapper that makes any engine worse at adjustable rates: noise, failures and outdated pages.

Every degradation is a rate in [0, 1] which an episode's difficulty parameters of the same name
override (``reset(options={"params": {"noise": 0.3}})``, ``set_params`` or a curriculum). With all
rates 0 the inner engine's own answers come back, the very objects. Where and how a degradation
strikes is a pure function of the call's key (ranking, failures) or of the episode (which pages are
old or dead), so equal seeds give equal bytes in any batching.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from ...batching import run_batch
from ...corpora.corpus import Corpus
from ...errors import EngineError, unknown
from ...seeding import derive
from ...storage.files import value_digest
from ...types import (
    CallContext,
    Charged,
    Failure,
    Hit,
    PageSource,
    Passage,
    Query,
    Ranking,
    SearchEngine,
)
from ...worlds.world import World
from ..pages import pages_of
from ..registry import build_engine
from .documents import DegradedPages, Documents
from .fakes import ATTACKS, invent
from .rates import Rates, Weather, episode_key, strikes

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


_SHOWN = Rates._fields.index("latency")
"""Rates before this one change what is shown, the rest only whether and when."""


class DegradedEngine:
    """``inner`` with degradations; see :class:`searchgym.engines.degraded.rates.Rates`.

    Scores stay the inner ranking's, so hits keep the contract: at most k, never increasing, ties by
    id. A query that finds nothing still finds nothing. What was done is told in
    ``ToolResult.meta["degraded"]`` and ``info["degraded"]``: ids by degradation, records of
    injected documents, simulated seconds (``latency``). ``dates``: whether wrong pages say how old
    they are ("all": true pages do, too, and are the younger ones). Over an engine that reads
    ``noise`` itself (a simulated one) both apply.

    ``rank``: a query's results hold at most one contradicting page, about the best hit that can be
    contradicted, and one document against the agent, each at this place (1 is the first; the last,
    where there are fewer hits; "any": drawn anew for each page of an episode), where its rate
    strikes. ``attack``: the only kind of documents
    against the agent.

    Raises:
        EngineError: for unknown rates, and for ``stale`` or ``contradict`` without a generated
            world (also when an episode's parameters ask for them).
    """

    degrades = True
    axes = frozenset({"noise"})

    def __init__(
        self,
        inner: SearchEngine,
        corpus: Corpus,
        world: World | None = None,
        *,
        dates: bool | Literal["all"] = True,
        latency_s: float = 1.0,
        timeout_s: float | None = None,
        rank: int | Literal["any"] | None = None,
        attack: str | None = None,
        **rates: float,
    ) -> None:
        place = not isinstance(rank, bool) and isinstance(rank, int) and rank > 0
        if not (rank is None or rank == "any" or place):
            raise EngineError(
                f"rank is the place of a misleading page, 1 the first, or 'any', got {rank!r}"
            )
        if not isinstance(dates, bool) and dates != "all":
            raise EngineError(f"dates must be true, false or 'all', got {dates!r}")
        if attack not in (None, *ATTACKS):
            raise EngineError(unknown("attack", str(attack), ATTACKS))
        self.inner, self.corpus = inner, corpus
        self.rates = Rates.of(rates)
        self.weather = Weather(latency_s, timeout_s).checked()
        self.documents = Documents(corpus, world, dates=dates)
        self.rank, self.attack = rank, attack
        self._check(self.rates)
        self.needs_task = inner.needs_task
        settings = [*self.rates, *self.weather, dates, corpus.digest]
        if rank is not None or attack is not None:
            settings += [rank, attack]
        self.settings_digest = value_digest(settings)
        self.fingerprint = f"degraded:{self.settings_digest}:{inner.fingerprint}"

    def cache_key(self, request: Query, /) -> bytes | None:
        """The inner key where nothing is degraded; else no answer is shared."""
        rates = self.rates.under(request.ctx.params)
        return None if any(rates) else self.inner.cache_key(request)

    def pages(self, default: PageSource) -> PageSource:
        """The inner engine's page source, degraded alike."""
        return DegradedPages(
            pages_of(self.inner, default), self.rates, self.weather, self.documents,
            self.settings_digest,
        )  # fmt: skip

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        """Answer every query in order, with one call of the inner engine for the whole batch."""
        rates = [self.rates.under(query.ctx.params) for query in batch]
        if not any(map(any, rates)):
            return list(run_batch(self.inner, batch))
        batch = [Query(text, k, ctx.keyed()) for text, k, ctx in batch]
        answers: list[Any] = [None] * len(batch)
        seconds = [0.0] * len(batch)
        asked: list[Query] = []
        where: list[tuple[int, int | None]] = []  # batch place, place of the decoy in ``asked``
        decoys: list[tuple[int, Query]] = []
        for i, (query, rate) in enumerate(zip(batch, rates, strict=True)):
            self._check(rate)
            seconds[i], answers[i] = self.weather.strike(rate, query.ctx)
            if answers[i] is None:
                asked.append(query)
                where.append((i, None))
                if needs_decoys(rate.noise, query):
                    decoys.append((len(where) - 1, decoy_query(query, self.corpus)))
        for at, decoy in decoys:
            where[at] = (where[at][0], len(asked))
            asked.append(decoy)
        rankings = run_batch(self.inner, asked)
        for (i, decoy_at), ranking in zip(where, rankings, strict=False):
            other = () if decoy_at is None else rankings[decoy_at]
            if isinstance(ranking, Failure) or isinstance(other, Failure):
                answers[i] = ranking if isinstance(ranking, Failure) else other
            else:
                answers[i] = self._degraded(batch[i], rates[i], ranking, other, seconds[i])
        return answers

    def _degraded(
        self, query: Query, rates: Rates, ranking: Ranking, decoys: Ranking, seconds: float
    ) -> Ranking:
        """One ranking as this call sees it; the same object where nothing struck."""
        if not any(rates):
            return ranking
        done: dict[str, Any] = {}
        hits: Ranking = ranking
        if ranking and any(rates[:_SHOWN]):
            passages = self._replaced(query, rates, ranking, decoys, done)
            passages = self._beside(query, rates, passages, done)[: max(query.k, 0)]
            if self.rank is not None:
                passages = self._contradicted(query, rates, passages, done)
            passages = self._injected(query, rates, passages, done)
            if strikes(rates.shuffle, query.ctx.key, "shuffle"):
                passages = shuffled(passages, query.ctx.key)
                done["shuffle"] = 1
            if self.documents.dates == "all":
                passages = [self.documents.true_version(p, query.ctx) for p in passages]
            if done or self.documents.dates == "all":
                hits = ranked(passages, [hit.score for hit in ranking], query.k)
        notes = _told(done, hits)
        if seconds:
            notes["latency"] = seconds
        cost = getattr(decoys, "cost", 0.0)
        if not notes and not cost and hits == ranking:
            return ranking
        cost += getattr(ranking, "cost", 0.0)  # the other query was paid for, too
        meta: dict[str, Any] = dict(getattr(ranking, "meta", {}))
        if notes or hits != ranking:
            meta["degraded"] = notes
        return Charged(hits, cost, meta)

    def _replaced(
        self, query: Query, rates: Rates, ranking: Ranking, decoys: Ranking, done: dict[str, Any]
    ) -> list[Passage]:
        """Noise and old versions: other passages at the same ranks."""
        ctx = query.ctx
        if not (rates.noise or rates.stale):
            return [hit.passage for hit in ranking]
        passages: list[Passage] = []
        spare = replacements(decoys, self.corpus, ctx.key, {h.passage.id for h in ranking})
        noisy = set(noisy_ranks(rates.noise, ctx.key, len(ranking)))
        for i, (passage, _) in enumerate(ranking):
            if i in noisy:
                done.setdefault("noise", [])
                if (other := next(spare, None)) is None:
                    continue  # a corpus with nothing else in it
                done["noise"].append(other.id)
                passage = other
            if strikes(rates.stale, episode_key(ctx), "stale", passage.url):
                old = self.documents.old_version(passage, ctx)
                if old is not None:
                    passage = old.passage
                    done.setdefault("stale", []).append(passage.id)
            passages.append(passage)
        return passages

    def _beside(
        self, query: Query, rates: Rates, passages: list[Passage], done: dict[str, Any]
    ) -> list[Passage]:
        """Spam above hits; copies and contradictions below them."""
        if not (rates.seo or rates.contradict or rates.duplicate):
            return passages
        key, out = query.ctx.key, []
        for i, passage in enumerate(passages):
            if strikes(rates.seo, key, "seo", i):
                out.append(self.documents.junk(query.text, derive(key, "junk", i)))
                done.setdefault("seo", []).append(out[-1].id)
            out.append(passage)
            if self.rank is None and strikes(
                rates.contradict, episode_key(query.ctx), "contradict", passage.url
            ):
                other = self.documents.contradiction(passage, query.ctx)
                if other is not None:
                    out.append(other.passage)
                    done.setdefault("contradict", []).append(other.passage.id)
            if strikes(rates.duplicate, key, "duplicate", i):
                out.append(mirror(passage, self.corpus))
                done.setdefault("duplicate", []).append(out[-1].id)
        return out

    def _contradicted(
        self, query: Query, rates: Rates, passages: list[Passage], done: dict[str, Any]
    ) -> list[Passage]:
        """One page with wrong facts about the best hit, at the chosen rank; the last hit makes room
        for it."""
        assert self.rank is not None
        if not strikes(rates.contradict, query.ctx.key, "contradict"):
            return passages
        made = (self.documents.contradiction(passage, query.ctx) for passage in passages)
        other = next((one for one in made if one is not None), None)
        if other is None:
            return passages
        done["contradict"] = [other.passage.id]
        at = self._place(query, len(passages), other.passage.url)
        return [*passages[:at], other.passage, *passages[at:]][: query.k]

    def _injected(
        self, query: Query, rates: Rates, passages: list[Passage], done: dict[str, Any]
    ) -> list[Passage]:
        """A document against the agent at a random rank; the last hit makes room for it."""
        key = query.ctx.key
        if not strikes(rates.adversarial, key, "adversarial"):
            return passages
        passage, about = self.documents.attack(query.text, key, passages, self.attack)
        places = min(query.k, len(passages) + 1)
        at = derive(key, "rank") % places
        if self.rank is not None:
            at = self._place(query, len(passages), passage.url)
        done["injected"] = [about.told()]
        return [*passages[:at], passage, *passages[at:]][: query.k]

    def _place(self, query: Query, passages: int, url: str) -> int:
        """Rank of a misleading page of this address, 0 the first."""
        places = min(query.k, passages + 1)
        if self.rank == "any":
            return derive(derive(episode_key(query.ctx), "place"), url) % places
        assert isinstance(self.rank, int)
        return min(self.rank, places) - 1

    def _check(self, rates: Rates) -> None:
        if rates.stale or rates.contradict:
            self.documents.facts()


def _told(done: Mapping[str, Any], hits: Ranking) -> dict[str, Any]:
    """Describe the degradation of the hits that are shown."""
    shown = {hit.passage.id for hit in hits}
    notes: dict[str, Any] = {}
    for kind, what in done.items():
        if kind == "shuffle":
            notes[kind] = what
        elif kept := [w for w in what if (w["id"] if isinstance(w, dict) else w) in shown]:
            notes[kind] = kept
    return notes


def make(
    corpus: Corpus, world: World | None, *, engine: Any = "bm25", **options: Any
) -> DegradedEngine:
    """Build for the registry: ``{"name": "degraded", "engine": "bm25", "noise": 0.3}``."""
    return DegradedEngine(build_engine(engine, corpus, world), corpus, world, **options)


# --- the axis ``distractors``: irrelevant passages among the hits of any engine ----------------
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
