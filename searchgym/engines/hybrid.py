"""Several engines as one: their rankings fused, then read again by a cross-encoder if wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..batching import joint_key, run_batch, text_and_k
from ..corpora.corpus import Corpus
from ..errors import EngineError, MissingExtraError, check_known, unknown
from ..objects import bare_hint, is_number
from ..storage.files import value_digest
from ..types import Charged, Failure, Hit, PageSource, Passage, Query, Ranking, SearchEngine
from ..worlds.world import World
from .dense.encoder import clean, pick_device, weights_digest
from .pages import hybrid_pages

Mean = Literal["arithmetic", "harmonic"]
_make_hit = partial(tuple.__new__, Hit)


def reciprocal_rank_fusion(
    rankings: Sequence[Ranking], k: int, *, constant: float = 60.0, weights: Sequence[float] = ()
) -> Ranking:
    """The k best by Σ weight / (constant + rank) over the rankings that hold a passage.

    Ranks count from 1; ties by passage id (Cormack, Clarke and Büttcher, SIGIR 2009: constant 60).
    ``weights`` are 1 unless given, one per ranking.
    """
    parts: dict[str, list[float]] = {}
    passages: dict[str, Passage] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, hit in enumerate(ranking, 1):
            passages.setdefault(hit.passage.id, hit.passage)
            parts.setdefault(hit.passage.id, []).append(weight / (constant + rank))
    scores = {key: math.fsum(values) for key, values in parts.items()}
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: max(0, k)]
    return tuple(_make_hit((passages[key], score)) for key, score in best)


def rank_score_fusion(rankings: Sequence[Ranking], k: int, *, mean: Mean = "arithmetic") -> Ranking:
    """The k best by mean rank P over the rankings that hold a passage, then by largest score S.

    From ACQO (arXiv 2601.21208), which leaves ties open; here P ascending, S descending, passage
    id. A hit's score is 1 / P; where P is equal and S is not, the later hit's is the next smaller
    number, so that equal scores still mean a true tie.
    """
    ranks: dict[str, list[int]] = {}
    largest: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            key = hit.passage.id
            ranks.setdefault(key, []).append(rank)
            if key not in largest or hit.score > largest[key].score:
                largest[key] = hit
    means = {key: _mean(passage_ranks, mean) for key, passage_ranks in ranks.items()}
    order = sorted(means, key=lambda key: (means[key], -largest[key].score, key))[: max(0, k)]
    hits: list[Hit] = []
    last: tuple[Fraction, float] | None = None
    for key in order:
        place = (means[key], largest[key].score)
        score = float(1 / means[key])
        if last is not None and last[0] == place[0]:
            score = hits[-1].score
            if last[1] != place[1]:
                score = math.nextafter(score, -math.inf)
        hits.append(_make_hit((largest[key].passage, score)))
        last = place
    return tuple(hits)


def with_notes(hits: Ranking, rankings: Sequence[Ranking]) -> Ranking:
    """``hits`` with what the fused rankings cost together and the notes they came with.

    Lists of notes are joined; what they say of hits that did not make it is left out.
    """
    charged = [ranking for ranking in rankings if isinstance(ranking, Charged)]
    if not charged:
        return hits
    hidden = {hit.passage.id for ranking in rankings for hit in ranking}
    hidden -= {hit.passage.id for hit in hits}
    meta: dict[str, Any] = {}
    for ranking in charged:
        _join(meta, ranking.meta, hidden)
    return Charged(hits, math.fsum(ranking.cost for ranking in charged), meta)


def _join(into: dict[str, Any], meta: Mapping[str, Any], hidden: set[str]) -> None:
    for key, value in meta.items():
        if isinstance(value, Mapping):
            inner = into.setdefault(key, {})
            if isinstance(inner, dict):
                _join(inner, value, hidden)
        elif isinstance(value, list):
            kept = [v for v in value if not _is_about(v, hidden)]
            if kept and isinstance(known := into.setdefault(key, []), list):
                known += [v for v in kept if v not in known]
        else:
            into.setdefault(key, value)


def _is_about(note: Any, ids: set[str]) -> bool:
    """A note is a passage's id, or a record with it under "id"."""
    passage_id = note.get("id") if isinstance(note, Mapping) else note
    return isinstance(passage_id, str) and passage_id in ids


def _mean(ranks: Sequence[int], mean: Mean) -> Fraction:
    """Return the exact mean, so that equal means are equal whatever they were made of."""
    if mean == "harmonic":
        return len(ranks) / sum((Fraction(1, r) for r in ranks), Fraction(0))
    return Fraction(sum(ranks), len(ranks))


class CrossEncoderReranker:
    """Scores (query, passage) pairs by a sentence-transformers ``CrossEncoder`` with one output.

    Equal batches of pairs have equal scores, bit for bit, and so have equal pairs of one batch.

    Args:
        model: A folder or a hub name.
        device: A torch device, or "auto".
        max_length: Tokens of a pair; default: the model's own.
        batch_size: Pairs per forward pass.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        EngineError: the model cannot be loaded or has several outputs.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "auto",
        max_length: int | None = None,
        batch_size: int = 32,
    ) -> None:
        self.device = pick_device(device)
        if isinstance(model, str) and (hint := bare_hint(model)):
            raise EngineError(f"{model!r} is a hub's name{hint}")
        local = Path(model).expanduser().exists()
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "dense") from error
        try:
            self._model = CrossEncoder(
                str(Path(model).expanduser() if local else model),
                device=str(self.device), local_files_only=local, max_length=max_length,
                trust_remote_code=False, model_kwargs={"use_safetensors": True},
            )  # fmt: skip
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise EngineError(f"cannot load the cross-encoder {str(model)!r}: {reason}") from error
        outputs = self._model.model.config.num_labels
        if outputs != 1:
            raise EngineError(f"a cross-encoder gives one score, {model} gives {outputs} outputs")
        self._model.model.eval().requires_grad_(False)
        self.max_length = int(self._model.max_seq_length or 512)
        self.batch_size = batch_size
        self.digest = value_digest([weights_digest(self._model), self.max_length, self.device.type])

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Scores (N,) of (query, passage) pairs, higher is better: what the model's last
        layer gives (``CrossEncoder.predict`` puts it through a sigmoid)."""
        import torch

        cleaned = [(clean(query), clean(text)) for query, text in pairs]
        distinct = {pair: row for row, pair in enumerate(dict.fromkeys(cleaned))}
        if not distinct:
            return np.zeros(0, np.float32)
        scores = self._model.predict(
            [list(pair) for pair in distinct], prompt="", batch_size=self.batch_size,
            show_progress_bar=False, activation_fn=torch.nn.Identity(),
        )  # fmt: skip
        if not np.isfinite(scores).all():
            raise EngineError("the cross-encoder gave scores that are not finite")
        return scores.astype(np.float32)[[distinct[pair] for pair in cleaned]]

    def rerank(self, asked: Sequence[tuple[str, Ranking, int]]) -> list[Ranking]:
        """The k best of each (query, ranking, k) by the cross-encoder, ties by passage id."""
        pairs = [
            (query, f"{hit.passage.title}\n{hit.passage.text}".strip())
            for query, ranking, _ in asked
            for hit in ranking
        ]
        scores = iter(self.score(pairs).tolist())
        answers: list[Ranking] = []
        for _, ranking, k in asked:
            hits = [_make_hit((hit.passage, next(scores))) for hit in ranking]
            answers.append(tuple(sorted(hits, key=lambda h: (-h.score, h.passage.id))[:k]))
        return answers


# --- the engine --------------------------------------------------------------------------------
FUSIONS = ("rrf", "rank-score")


class HybridEngine:
    """The rankings of several engines, fused.

    Every inner engine is asked for ``max(k, depth)`` hits; a passage that several find goes up. The
    engine is pure where its inner engines are. A query that an inner engine fails on fails here
    too: half an answer would look like a whole one.

    Args:
        engines: two or more engines (or one, to put a cross-encoder behind it).
        fusion: "rrf" (reciprocal ranks) or "rank-score" (ACQO); see below.
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
