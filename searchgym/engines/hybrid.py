"""Several engines as one: their rankings fused, then read again by a cross-encoder if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from ..batching import joint_key, run_batch, text_and_k
from ..corpora.corpus import Corpus
from ..errors import EngineError, check_known, unknown
from ..objects import is_number
from ..storage.files import value_digest
from ..types import Failure, PageSource, Query, Ranking, SearchEngine
from ..worlds.world import World
from .fusion import Mean, rank_score_fusion, reciprocal_rank_fusion, with_notes
from .pages import hybrid_pages
from .rerank import CrossEncoderReranker

FUSIONS = ("rrf", "rank-score")


class HybridEngine:
    """The rankings of several engines, fused.

    Every inner engine is asked for ``max(k, depth)`` hits; a passage that several find goes up. The
    engine is pure where its inner engines are. A query that an inner engine fails on fails here
    too: half an answer would look like a whole one.

    Args:
        engines: two or more engines (or one, to put a cross-encoder behind it).
        fusion: "rrf" (reciprocal ranks) or "rank-score" (ACQO); see ``fusion``.
        constant: of "rrf"; default 60.
        weights: of "rrf", one per engine; default 1.
        mean: of "rank-score": "arithmetic" (default) or "harmonic".
        depth: hits asked of each engine, at least.
        reranker: scores the ``rerank_depth`` best fused hits again.
        rerank_depth: see above, default 20; at least k are scored.

    What inner engines tell of a query, and charge for it, is told and charged here, too.

    Raises:
        EngineError: no engines, or options that the fusion does not have.
    """

    def __init__(
        self,
        engines: Sequence[SearchEngine],
        *,
        fusion: str = "rrf",
        constant: float | None = None,
        weights: Sequence[float] = (),
        mean: Mean | None = None,
        depth: int = 100,
        reranker: CrossEncoderReranker | None = None,
        rerank_depth: int | None = None,
    ) -> None:
        if not engines:
            raise EngineError('engine "hybrid" needs engines, for example ["bm25", "dense"]')
        check_known("fusion", FUSIONS, fusion, error=EngineError)
        if mean is not None and mean not in get_args(Mean):
            raise EngineError(unknown("mean", mean, get_args(Mean)))
        for name, value, of in (("weights", weights, "rrf"), ("constant", constant, "rrf"),
                                ("mean", mean, "rank-score")):  # fmt: skip
            if value not in ((), [], None) and fusion != of:
                raise EngineError(f"{name} belongs to fusion {of!r}, not {fusion!r}: leave it out")
        if rerank_depth is not None and reranker is None:
            raise EngineError("rerank_depth needs a reranker")
        constant = 60.0 if constant is None else constant
        mean = "arithmetic" if mean is None else mean
        rerank_depth = 20 if rerank_depth is None else rerank_depth
        positive = all(is_number(w) and w > 0 for w in weights)
        if weights and (len(weights) != len(engines) or not positive):
            raise EngineError(
                f"weights are positive, one for each of {len(engines)} engines, got {weights!r}"
            )
        if not is_number(constant) or constant < 0 or depth < 1 or rerank_depth < 1:
            raise EngineError(
                f"hybrid needs constant ≥ 0, depth ≥ 1 and rerank_depth ≥ 1, got {constant}, "
                f"{depth} and {rerank_depth}"
            )
        self.engines, self.reranker = tuple(engines), reranker
        self.fusion, self.constant, self.mean = fusion, float(constant), mean
        self.weights = tuple(map(float, weights))
        self.depth, self.rerank_depth = depth, rerank_depth
        self.needs_task = any(engine.needs_task for engine in engines)
        self.degrades = any(getattr(engine, "degrades", False) for engine in engines)
        self.axes = frozenset(axis for engine in engines for axis in getattr(engine, "axes", ()))

    @property
    def fingerprint(self) -> str:
        """Digest of the inner engines, in order, and of everything that fuses them."""
        parts = [engine.fingerprint for engine in self.engines]
        own: list[Any] = [self.fusion, self.depth]
        own += [self.constant, self.weights] if self.fusion == "rrf" else [self.mean]
        if self.reranker is not None:
            own += [self.reranker.digest, self.rerank_depth]
        return f"hybrid:{value_digest([parts, own])}"

    def cache_key(self, request: Query, /) -> bytes | None:
        """The inner engines' keys; ``None`` as soon as one of them shares no answers."""
        inner = request._replace(k=self._depth(request.k))
        keys = (engine.cache_key(inner) for engine in self.engines)
        return joint_key((text_and_k(request), *keys))

    def pages(self, default: PageSource) -> PageSource:
        """The inner engines' page sources; see ``hybrid_pages``."""
        return hybrid_pages(self.engines, default)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        """Ask every engine once for the whole batch, then fuse query by query."""
        answers: list[Ranking | Failure] = [()] * len(batch)
        asked = [i for i, query in enumerate(batch) if query.k > 0 and query.text.strip()]
        if not asked:
            return answers
        inner = [batch[i]._replace(k=self._depth(batch[i].k)) for i in asked]
        by_engine = [run_batch(engine, inner) for engine in self.engines]
        fused: list[tuple[int, Ranking]] = []
        parts = dict(zip(asked, zip(*by_engine, strict=True), strict=True))
        for i, rankings in parts.items():
            failed = next((r for r in rankings if isinstance(r, Failure)), None)
            if failed is not None:
                answers[i] = failed
            else:
                fused.append((i, self._fuse(rankings, batch[i].k)))
        if self.reranker is not None:
            texts = [(batch[i].text, ranking, batch[i].k) for i, ranking in fused]
            places = [i for i, _ in fused]
            fused = list(zip(places, self.reranker.rerank(texts), strict=True))
        for i, ranking in fused:
            answers[i] = with_notes(ranking, parts[i])
        return answers

    def _fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        keep = k if self.reranker is None else max(k, self.rerank_depth)
        if self.fusion == "rrf":
            return reciprocal_rank_fusion(
                rankings, keep, constant=self.constant, weights=self.weights
            )
        return rank_score_fusion(rankings, keep, mean=self.mean)

    def _depth(self, k: int) -> int:
        return max(k, self.depth)


def make(
    corpus: Corpus,
    world: World | None = None,
    *,
    engines: Sequence[str | Mapping[str, Any] | SearchEngine] = ("bm25", "dense"),
    reranker: str | Path | Mapping[str, Any] | CrossEncoderReranker | None = None,
    **options: Any,
) -> HybridEngine:
    """Build for the registry: ``engines`` are specs as in ``engine=``; ``reranker`` is a folder, a
    hub name, ``{"model": …, **arguments of CrossEncoderReranker}`` or a ready one."""
    from .registry import build_engine

    if isinstance(engines, str | Mapping) or not isinstance(engines, Sequence):
        raise EngineError(f"engines is a list, for example ['bm25', 'dense'], got {engines!r}")
    if isinstance(reranker, Mapping):
        reranker = CrossEncoderReranker(**reranker)
    elif isinstance(reranker, str | Path):
        reranker = CrossEncoderReranker(reranker)
    made = [build_engine(spec, corpus, world) for spec in engines]
    return HybridEngine(made, reranker=reranker, **options)
