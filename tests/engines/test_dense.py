"""The dense engine: encoders, kinds of index, exactness."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.dense.build import build_dense, recall
from searchgym.engines.dense.encoder import PRESETS, SentenceEncoder, find_preset
from searchgym.engines.dense.index import KINDS, DenseIndex, Vectors, build_faiss, parameters
from searchgym.errors import EngineError
from searchgym.types import CallContext, Query
from tests.engines.drawn import WORDS, corpus_of

from .tiny import encoder_folder, tiny_encoder

CONTEXT = CallContext(0, "e", {})


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu")


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    return SentenceEncoder(device="cpu")


# --- vectors ----------------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("levels", [0, 2])
def test_the_nearest_are_those_of_a_full_sort(blocks: int, levels: int) -> None:
    rng = np.random.default_rng(blocks)
    x = rng.normal(size=(700, 16)).astype(np.float32)
    if levels:  # coarse values: hundreds of exact ties, far more than there are candidates
        x = np.clip(np.rint(x * levels), -1, 1).astype(np.float32)
    longest = float(np.linalg.norm(x, axis=1).max())
    vectors = Vectors(np.array_split(x, blocks), longest=longest)
    queries = x[:40] + (0 if levels else rng.normal(size=(40, 16)).astype(np.float32))
    queries = queries.astype(np.float32)
    for k in (1, 5, 100, 700):
        for q, (rows, scores) in zip(queries, vectors.nearest(queries, k), strict=True):
            full = (x * q.astype(np.float64)).sum(axis=1).astype(np.float32)
            order = np.lexsort((np.arange(700), -full))[:k]
            np.testing.assert_array_equal(rows, order)
            np.testing.assert_array_equal(scores, full[order])


# --- encoders ---------------------------------------------------------------------------------
def test_equal_batches_and_equal_texts_have_equal_vectors(encoder: SentenceEncoder) -> None:
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, n)) for n in [1, 2, 3, 5, 8, 9, 14, 20, 3, 3, 60, 7] * 4]
    texts += ["\ud800 broken", "x" * 3000, texts[3]]
    whole = encoder.queries(texts)
    np.testing.assert_array_equal(encoder.queries(texts), whole)
    np.testing.assert_array_equal(whole[-1], whole[3])
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1.0, atol=1e-5)
    for i in (0, 10, 48, 49):
        np.testing.assert_allclose(encoder.queries([texts[i]])[0], whole[i], atol=1e-5)
    told: list[int] = []
    encoder.passages([("", text) for text in texts], told.append)
    assert sum(told) == len(texts)


def test_vectors_are_those_of_sentence_transformers(minilm: SentenceEncoder) -> None:
    texts = ["who wrote it?", "a boat on the river " * 40, "日本"]
    theirs = minilm._model.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(minilm.queries(texts), theirs, atol=2e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_pooling_by_hand(pooling: Any) -> None:
    model = SentenceEncoder(tiny_encoder(), pooling=pooling, normalize=False, device="cpu")
    text = "red fox"
    features = model._model.tokenizer([text], return_tensors="pt")
    with torch.inference_mode():
        hidden = model._model[0](dict(features))["token_embeddings"][0].numpy()
    expected = {"mean": hidden.mean(axis=0), "cls": hidden[0], "last": hidden[-1]}[pooling]
    np.testing.assert_allclose(model.queries([text])[0], expected, atol=1e-5)


def test_presets_by_the_model_s_name() -> None:
    names = {
        "intfloat/e5-base-v2": "e5", "intfloat/multilingual-e5-small": "e5",
        "intfloat/multilingual-e5-large-instruct": "e5-instruct",
        "intfloat/e5-mistral-7b-instruct": "e5-mistral", "BAAI/bge-base-en-v1.5": "bge",
        "BAAI/bge-large-zh": "bge-zh", "BAAI/bge-m3": "bge-m3", "all-MiniLM-L6-v2": "minilm",
        "/models/bge-cache/mpnet": "plain", "some/recipe5": "plain",
    }  # fmt: skip
    assert {model: find_preset("auto", model)[0] for model in names} == names
    with pytest.raises(EngineError, match="Did you mean 'bge'"):
        find_preset("bgee", "x")


def test_prefixes_reach_the_encoder() -> None:
    plain = SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu")
    e5 = SentenceEncoder(tiny_encoder(), preset="e5", device="cpu")
    np.testing.assert_array_equal(e5.queries(["fox"]), plain.queries(["query: fox"]))
    np.testing.assert_array_equal(e5.passages([("T", "fox")]), plain.queries(["passage: T\nfox"]))
    bge = SentenceEncoder(tiny_encoder(), preset="bge", pooling="mean", device="cpu")
    asked = PRESETS["bge"].instruction + "fox"
    np.testing.assert_array_equal(bge.queries(["fox"]), plain.queries([asked]))
    np.testing.assert_array_equal(bge.passages([("", "fox")]), plain.queries(["fox"]))
    told = SentenceEncoder(tiny_encoder(), preset="e5-instruct", instruction="Find", device="cpu")
    assert told.query_prefix == "Instruct: Find\nQuery: "
    quoted = SentenceEncoder(tiny_encoder(), passage_format='"{title}"\n{text}', device="cpu")
    assert quoted.written("A {text}", "b {title}") == '"A {text}"\nb {title}'
    assert quoted.written("", "b") == "b"
    digests = {model.digest for model in (plain, e5, bge, told, quoted)}
    assert len(digests) == 5
    assert SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu").digest == plain.digest


def test_a_copy_is_the_same_encoder_and_other_weights_are_not(tmp_path: Path) -> None:
    shutil.copytree(tiny_encoder(), tmp_path / "copy")
    other = SentenceEncoder(encoder_folder(tmp_path / "o", seed=1), device="cpu")
    copy = SentenceEncoder(tmp_path / "copy", device="cpu")
    assert copy.digest == SentenceEncoder(tiny_encoder(), device="cpu").digest != other.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "no/such/folder/at-all", "device": "cpu"}, "cannot load the encoder"),
        ({"device": "toaster"}, "unknown device 'toaster'"),
        ({"pooling": "max"}, "pooling must be one of"),
        ({"dtype": "int3"}, "dtype must be one of"),
        ({"passage_format": "{title}"}, "must contain {text}"),
    ],
)
def test_wrong_encoders_are_one_clear_error(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "model" in options:
        options = {**options, "model": "/no/such/folder"}
    with pytest.raises(EngineError, match=message):
        SentenceEncoder(**options)


# --- kinds ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_recall_against_flat_is_measured_and_is_what_serving_gives(
    kind: str, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    corpus = corpus_of(600)
    made = build_dense(corpus, encoder, tmp_path / "i", kind=kind, shard=256)
    found = made["recall"]
    assert found["k"] == 10
    assert 0.5 < found["served"] <= 1.0
    assert found["raw"] <= found["served"]
    assert (kind == "flat") == (found["queries"] == 0)
    engine = build_engine(
        {"name": "dense", "index": str(tmp_path / "i"), "encoder": encoder}, corpus
    )
    flat = build_engine({"name": "dense", "encoder": encoder}, corpus)
    texts = [p.text for p in list(corpus)[::7]]
    shares = []
    for ours, exact in zip(engine.search(texts, 10), flat.search(texts, 10), strict=True):
        scores = {hit.passage.id: hit.score for hit in exact}
        for hit in ours:
            assert scores.get(hit.passage.id, hit.score) == pytest.approx(hit.score, abs=1e-5)
        shares.append(sum(hit.score >= exact[-1].score - 1e-5 for hit in ours) / 10)
    assert np.mean(shares) == pytest.approx(found["served"], abs=0.1)


def test_recall_counts_what_is_missed() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 32)).astype(np.float32)
    vectors = Vectors([x], longest=float(np.linalg.norm(x, axis=1).max()))
    few = parameters("hnsw", {"links": 2, "ef_construction": 4, "ef_search": 1, "depth": 1})
    index = DenseIndex("hnsw", vectors, build_faiss("hnsw", vectors, few), few, gpu=False)
    poor = recall(index, x[:200])["served"]
    many = parameters("hnsw", {"ef_search": 2000})
    index = DenseIndex("hnsw", vectors, build_faiss("hnsw", vectors, many), many, gpu=False)
    assert poor < 0.7 < recall(index, x[:200])["served"] == 1.0


def test_numbers_of_an_index() -> None:
    assert parameters("hnsw", {"links": 8})["links"] == 8
    for kind, given, message in (
        ("hnws", {}, "Did you mean 'hnsw'"),
        ("flat", {"links": 3}, "unknown number of index 'flat'"),
        ("hnsw", {"links": 0}, "must be a whole number ≥ 1"),
    ):  # fmt: skip
        with pytest.raises(EngineError, match=message):
            parameters(kind, given)


def test_options_of_the_engine(encoder: SentenceEncoder, tmp_path: Path) -> None:
    corpus = corpus_of(60)
    spec = {"name": "dense", "encoder": str(tiny_encoder()), "pooling": "mean", "device": "cpu"}
    by_path = build_engine(spec, corpus)
    ready = build_engine({"name": "dense", "encoder": encoder}, corpus)
    assert by_path.fingerprint == ready.fingerprint
    cached = build_engine({**spec, "cache": str(tmp_path)}, corpus)
    assert cached.search(["fox"], 5) == by_path.search(["fox"], 5)  # type: ignore[attr-defined]
    hnsw = build_engine({**spec, "kind": "hnsw", "ef_search": 7}, corpus)
    assert hnsw.fingerprint != by_path.fingerprint
    folder = next(tmp_path.iterdir())
    opened = build_engine({"name": "dense", "index": str(folder)}, corpus)
    assert opened.fingerprint == cached.fingerprint
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**spec, "kind": "tree"}, "unknown dense index 'tree'"),
        ({**spec, "colour": 1}, "colour"),
        ({"encoder": encoder, "pooling": "cls"}, "cannot change an encoder that is ready"),
        ({"index": str(tmp_path / "none")}, "searchgym corpus index CORPUS --engine dense"),
        ({"index": str(folder), "kind": "hnsw"}, "is of kind 'flat'"),
        ({"index": str(folder), "cache": "x"}, "not both"),
        ({"index": str(folder), "pooling": "cls"}, "cannot change|another encoder"),
        ({**spec, "index": str(folder), "pooling": "cls"}, "built with another encoder"),
        ({**spec, "gpu": True}, "needs the package faiss-gpu and a GPU"),
    ]
    for options, message in wrong:
        with pytest.raises(EngineError, match=message):
            build_engine({"name": "dense", **options}, corpus)
    with pytest.raises(EngineError, match="was not built from corpus"):
        build_engine({"name": "dense", "index": str(folder)}, corpus_of(61))
    with pytest.raises(EngineError, match="is empty"):
        build_engine({"name": "dense", "encoder": encoder}, Corpus("empty", []))


# --- environments -----------------------------------------------------------------------------
def test_environments_search_with_it() -> None:
    import gymnasium as gym

    small = {"world": {"entities": 60}, "tasks": {"simple": 3}}
    dense = {"name": "dense", "encoder": str(tiny_encoder()), "device": "cpu"}
    for engine in (dense, {"name": "hybrid", "engines": ["bm25", dense]}):
        env: Any = gym.make("SearchQA-v0", engine=engine, **small).unwrapped
        env.reset(seed=1)
        corpus = env.corpus
        expected = build_engine(engine, corpus).run([Query("who founded it", 3, CONTEXT)])[0]
        observation, *_ = env.step("<search>who founded it</search>")
        shown = json.dumps(observation, ensure_ascii=False)
        assert len(expected) == 3
        for hit in expected:
            assert hit.passage.title in shown
