"""Fusion of rankings, and cross-encoders behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.hybrid import (
    CrossEncoderReranker,
    rank_score_fusion,
    reciprocal_rank_fusion,
    with_notes,
)
from searchgym.engines.pages import CorpusPages
from searchgym.errors import EngineError
from searchgym.types import (
    CallContext,
    Charged,
    Failure,
    Hit,
    Page,
    PageRequest,
    PageSource,
    Passage,
    Query,
    Ranking,
)

from ..small import CORPUS, PASSAGES
from .drawn import corpus_of
from .tiny import cross_encoder_folder, tiny_encoder

CONTEXT = CallContext(0, "e", {})


def ranking(**scores: float) -> Ranking:
    return tuple(Hit(Passage(key, "", key, f"u:{key}"), score) for key, score in scores.items())


def ids(found: Ranking) -> list[str]:
    return [hit.passage.id for hit in found]


L1, L2 = ranking(d1=9.0, d2=5.0), ranking(d2=8.0, d3=4.0)


def test_the_worked_example_tells_the_two_apart() -> None:
    found = rank_score_fusion([L1, L2], 10)
    assert ids(found) == ["d1", "d2", "d3"]
    assert [1 / hit.score for hit in found] == pytest.approx([1, 1.5, 2])
    harmonic = rank_score_fusion([L1, L2], 10, mean="harmonic")
    assert ids(harmonic) == ["d1", "d2", "d3"]
    assert [1 / hit.score for hit in harmonic] == pytest.approx([1, 4 / 3, 2])
    rrf = reciprocal_rank_fusion([L1, L2], 10)
    assert ids(rrf) == ["d2", "d1", "d3"]
    assert [hit.score for hit in rrf] == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62])


def test_equal_mean_ranks_are_ordered_by_score_then_id() -> None:
    lists = [ranking(b=1.0), ranking(a=1.0), ranking(c=3.0)]
    found = rank_score_fusion(lists, 10)
    assert ids(found) == ["c", "a", "b"]
    assert found[0].score > found[1].score == found[2].score
    assert ids(reciprocal_rank_fusion(lists, 10)) == ["a", "b", "c"]
    # 1 and 3, 2 and 2, 3 and 1 have one mean rank; their largest scores differ.
    lists = [ranking(x=9.0, y=8.0, z=7.0), ranking(z=9.5, y=8.5, x=7.5)]
    found = rank_score_fusion(lists, 10)
    assert ids(found) == ["z", "x", "y"]
    assert [round(hit.score, 9) for hit in found] == [0.5, 0.5, 0.5]
    assert found[0].score > found[1].score > found[2].score


def test_constant_and_weights_count() -> None:
    far = [ranking(a=1.0, b=0.5), ranking(c=1.0, b=0.5)]
    assert ids(reciprocal_rank_fusion(far, 1, constant=60)) == ["b"]
    assert ids(reciprocal_rank_fusion(far, 1, constant=0)) == ["a"]
    assert ids(reciprocal_rank_fusion(far, 1, constant=0, weights=[1, 3])) == ["c"]


lists_of_rankings = st.lists(
    st.permutations("abcdefgh").flatmap(
        lambda keys: st.lists(st.integers(0, 5), min_size=0, max_size=8).map(
            lambda s: ranking(
                **{k: float(v) for k, v in zip(keys, sorted(s, reverse=True), strict=False)}
            )
        )
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@given(lists_of_rankings, st.integers(0, 9))
def test_fused_rankings_keep_the_rules(rankings: list[Ranking], k: int) -> None:
    for fuse in (reciprocal_rank_fusion, rank_score_fusion):
        whole = fuse(rankings, 100)
        assert fuse(rankings, k) == whole[:k]
        assert {*ids(whole)} == {key for found in rankings for key in ids(found)}
        assert list(whole) == sorted(whole, key=lambda hit: (-hit.score, hit.passage.id))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderReranker:
    folder = cross_encoder_folder(tmp_path_factory.mktemp("cross"))
    return CrossEncoderReranker(folder, device="cpu")


def test_equal_batches_have_equal_scores(reranker: CrossEncoderReranker) -> None:
    pairs = [(f"fox {i}", p.text) for i, p in enumerate(corpus_of(40))]
    whole = reranker.score(pairs)
    assert len(np.unique(whole)) > 30
    np.testing.assert_array_equal(reranker.score(pairs), whole)
    np.testing.assert_array_equal(reranker.score([*pairs, *pairs]), [*whole, *whole])
    np.testing.assert_allclose(reranker.score(pairs[3:4]), whole[3:4], atol=1e-5)
    assert reranker.score([]).shape == (0,)
    theirs = reranker._model.predict(pairs)
    np.testing.assert_allclose(1 / (1 + np.exp(-whole)), theirs, atol=1e-5)


def test_a_cross_encoder_orders_the_best_of_the_fusion(reranker: CrossEncoderReranker) -> None:
    corpus = corpus_of(80)
    plain: Any = build_engine({"name": "hybrid", "engines": ["bm25"]}, corpus)
    engine: Any = build_engine(
        {"name": "hybrid", "engines": ["bm25"], "reranker": reranker, "rerank_depth": 12}, corpus
    )
    queries = [Query(text, k, CONTEXT) for text in ("red fox", "日本 boat") for k in (3, 12, 20)]
    for query, found in zip(queries, engine.run(queries), strict=True):
        (pool,) = plain.run([query._replace(k=max(12, query.k))])
        scores = reranker.score(
            [(query.text, f"{h.passage.title}\n{h.passage.text}") for h in pool]
        )
        # Batches of another size are rounded otherwise in the last digits.
        expected = dict(zip(ids(pool), scores, strict=True))
        theirs = [expected.pop(i) for i in ids(found)]
        assert [hit.score for hit in found] == pytest.approx(theirs, abs=1e-5)
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert len(found) == min(query.k, len(pool))
        assert all(score <= found[-1].score + 1e-5 for score in expected.values())
        (alone,) = engine.run([query])
        assert [hit.score for hit in alone] == pytest.approx([h.score for h in found], abs=1e-5)
    assert plain.fingerprint != engine.fingerprint


def test_what_hybrid_passes_on() -> None:
    corpus = corpus_of(30)

    class Needy:
        needs_task, fingerprint = True, "needy"

        def cache_key(self, request: Query, /) -> bytes | None:
            return None

        def run(self, batch: list[Query], /) -> list[Ranking]:
            raise TimeoutError("too slow")

    bm25, both = (
        build_engine({"name": "hybrid", "engines": e}, corpus)
        for e in (["bm25"], ["bm25", Needy()])
    )
    query = Query("red", 3, CONTEXT)
    assert (bm25.needs_task, both.needs_task) == (False, True)
    assert bm25.cache_key(query) is not None
    assert both.cache_key(query) is None
    (failed,) = both.run([query])
    assert (failed.kind, failed.message) == ("timeout", "too slow")  # type: ignore[union-attr]


class Paid(BM25Engine):
    """Charges for each query, and reads pages of its own."""

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [Charged(hits, 0.25, {"said": [hits[0].passage.id]}) for hits in super().run(batch)]

    def pages(self, default: PageSource) -> PageSource:
        return OwnPages()


class OwnPages:
    needs_task, fingerprint = False, "own pages"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        return request.url.encode()

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | Failure | None]:
        own = Page("own", "T", "text", ("1",))
        failed = Failure("unavailable", "down")
        return [own if r.url == "own" else failed if r.url == "down" else None for r in batch]


def test_costs_and_notes_of_inner_engines_are_passed_on() -> None:
    noisy = {"name": "degraded", "noise": 1.0}
    engine = build_engine({"name": "hybrid", "engines": ["bm25", Paid(CORPUS), noisy]}, CORPUS)
    query = Query("Aldor founder", 3, CONTEXT)
    (found,) = engine.run([query])
    assert isinstance(found, Charged)
    shown = {hit.passage.id for hit in found}
    assert found.cost == 0.25
    assert found.meta["said"] == ["p1"]
    assert found.meta["degraded"]["noise"]
    assert {*found.meta["degraded"]["noise"]} <= shown
    (first,) = engine.run([query._replace(k=1)])
    assert ids(first) == ["p1"]  # type: ignore[arg-type]
    told = first.meta["degraded"].get("noise", [])  # type: ignore[union-attr]
    assert told == [], "what is not shown is not told of"
    plain = build_engine({"name": "hybrid", "engines": ["bm25"]}, CORPUS)
    assert not isinstance(plain.run([query])[0], Charged)


def test_pages_of_inner_engines_are_opened() -> None:
    default = CorpusPages(CORPUS)
    plain: Any = build_engine({"name": "hybrid", "engines": ["bm25", "bm25"]}, CORPUS)
    assert plain.pages(default) is default
    both: Any = build_engine({"name": "hybrid", "engines": ["bm25", Paid(CORPUS)]}, CORPUS)
    source = both.pages(default)
    asked = [PageRequest(u, CONTEXT) for u in ("own", PASSAGES[0].url, "down", "nowhere")]
    own, corpus, failed, none = source.run(asked)
    assert (own.text, corpus.title, none) == ("text", "Aldor", None)
    assert failed == Failure("unavailable", "down"), "it might have had the page"
    assert source.cache_key(asked[0]) != source.cache_key(asked[1])
    dead = {"name": "degraded", "dead": 1.0}
    worse: Any = build_engine({"name": "hybrid", "engines": ["bm25", dead]}, CORPUS)
    assert worse.pages(default).run(asked[1:2]) == [None], "a dead link stays dead"


def test_noise_within_a_hybrid_is_not_recorded(tmp_path: Path) -> None:
    inner = {"name": "hybrid", "engines": ["bm25", {"name": "degraded", "noise": 0.5}]}
    with pytest.raises(EngineError, match="turn it round"):
        build_engine({"name": "recorded", "engine": inner, "path": str(tmp_path / "r")}, CORPUS)


def test_dense_and_bm25_by_name(tmp_path: Path) -> None:
    corpus = corpus_of(80)
    dense = {"name": "dense", "encoder": str(tiny_encoder()), "cache": str(tmp_path)}
    engines: list[Any] = [build_engine(spec, corpus) for spec in ("bm25", dense)]
    fused: Any = build_engine({"name": "hybrid", "engines": ["bm25", dense], "depth": 20}, corpus)
    query = Query("red fox", 5, CONTEXT)
    inner = [engine.search(["red fox"], 20)[0] for engine in engines]
    assert fused.run([query]) == [reciprocal_rank_fusion(inner, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engines": []}, "needs engines"),
        ({"engines": "bm25"}, r"engines is a list, for example \['bm25', 'dense'\]"),
        ({"engines": ["bm52"]}, "unknown engine 'bm52'"),
        ({"engines": ["bm25"], "fusion": "rff"}, "Did you mean 'rrf'"),
        ({"engines": ["bm25"], "mean": "geometric"}, "unknown mean"),
        ({"engines": ["bm25"], "weights": [1, 2]}, "weights are positive, one for each"),
        ({"engines": ["bm25"], "weights": [math.nan]}, "weights are positive, one for each"),
        ({"engines": ["bm25"], "weights": ["1"]}, "weights are positive, one for each"),
        ({"engines": ["bm25"], "constant": math.inf}, "constant ≥ 0"),
        ({"engines": ["bm25"], "depth": 0}, "depth ≥ 1"),
        ({"engines": None}, "engines is a list"),
        ({"engines": ["bm25"], "fusion": "rank-score", "weights": [1]}, "weights belongs to"),
        ({"engines": ["bm25"], "fusion": "rank-score", "constant": 60}, "constant belongs to"),
        ({"engines": ["bm25"], "mean": "harmonic"}, "mean belongs to fusion 'rank-score'"),
        ({"engines": ["bm25"], "rerank_depth": 5}, "rerank_depth needs a reranker"),
        ({"engines": ["bm25"], "reranker": "/no/such/folder"}, "cannot load the cross-encoder"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_engine({"name": "hybrid", **options}, Corpus("c", [Passage("1", "", "red", "u")]))


def test_a_classifier_with_several_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="gives 3 outputs"):
        CrossEncoderReranker(cross_encoder_folder(tmp_path / "c", outputs=3), device="cpu")


def test_notes_of_any_shape_are_joined() -> None:
    """Engines of others may note what they like; only notes on hidden hits go."""
    a, b = (Hit(Passage(key, "", "", ""), 1.0) for key in "ab")
    said = {"log": [["x", 1], {"id": ["a"]}, {"id": "a"}, {"id": "b"}, "b", "a", 3]}
    told = with_notes((a,), [Charged((a, b), 0.5, said), Charged((a,), 0.25, {"log": [3, [4]]})])
    assert isinstance(told, Charged)
    assert told.meta == {"log": [["x", 1], {"id": ["a"]}, {"id": "a"}, "a", 3, [4]]}
    assert told.cost == 0.75
