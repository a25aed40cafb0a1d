"""Words as single tokens whose embeddings are a sentence encoder's, projected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from searchgym.errors import DataError
from searchgym.llms import SftConfig, small_model
from searchgym_agents.reader.encoding import MARKS, encode_traces, reader_tokenizer
from searchgym_agents.reader.lexicon import (
    LONG,
    Lexicon,
    embed,
    known,
    lexicon_of,
    slot_vectors,
    word_tokenizer,
)
from searchgym_agents.reader.mixture import Mixture, Stage
from searchgym_agents.reader.slots import SLOTS, slots
from searchgym_agents.reader.traces import Trace
from searchgym_agents.reader.trainer import TraceTrainer
from tests.reader.few_words import FewWords


@pytest.fixture(scope="module")
def lexicon(traces: list[Trace]) -> Lexicon:
    texts = [piece.text for trace in traces for piece in trace.pieces]
    return lexicon_of([*texts, *["Wrote it. He wrote it."] * 30], FewWords(layers=6), near=4)


@pytest.fixture(scope="module")
def tokenizer(traces: list[Trace], lexicon: Lexicon) -> Any:
    return word_tokenizer(reader_tokenizer(traces, 600, known(lexicon)), lexicon)


def test_neighbours_of_the_texts_words_are_in_it(lexicon: Lexicon) -> None:
    assert {"wrote", "penned", "born", "birth"} <= set(lexicon.words)
    assert list(lexicon.words) == sorted(set(lexicon.words))
    place = {word: i for i, word in enumerate(lexicon.words)}
    near = lexicon.vectors @ lexicon.vectors[place["wrote"]]
    assert near[place["penned"]] > near[place["born"]] + 0.2
    assert np.linalg.norm(lexicon.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert "wrote" in lexicon.capitals


def test_too_few_words_are_refused() -> None:
    with pytest.raises(DataError, match="no word stands 20 times"):
        lexicon_of(["Once only."], FewWords(layers=6))


def test_words_are_single_tokens(tokenizer: Any, lexicon: Lexicon) -> None:
    for word in ("penned", "wrote", "Wrote"):
        assert len(tokenizer(f" {word}", add_special_tokens=False)["input_ids"]) == 1
    for mark in MARKS:
        assert len(tokenizer(mark, add_special_tokens=False)["input_ids"]) == 1
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 0


@given(text=st.text(max_size=80))
def test_any_text_round_trips(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_synonyms_stay_close_whatever_is_learnt(
    tokenizer: Any, lexicon: Lexicon, traces: list[Trace]
) -> None:
    model = small_model(tokenizer, width=32)
    given = embed(model, tokenizer, lexicon)
    assert given.words is not None
    assert len(given.words.tokens) == len(known(lexicon))
    assert len(given.still) == SLOTS
    table = model.get_input_embeddings().weight
    before = table.detach().clone()
    vocabulary = tokenizer.get_vocab()

    def cosine(a: str, b: str) -> float:
        rows = [table[vocabulary[f"Ġ{word}"]].detach() for word in (a, b)]
        return float(torch.nn.functional.cosine_similarity(rows[0], rows[1], dim=0))

    assert cosine("wrote", "penned") > cosine("wrote", "born") + 0.2
    assert cosine("wrote", "Wrote") > 0.5
    lengths = table[[vocabulary["Ġwrote"], *(vocabulary[s] for s in slots()[1:])]].norm(dim=1)
    assert (lengths[1:] / lengths[0]).tolist() == pytest.approx([LONG] * SLOTS, rel=1e-4)
    rows = encode_traces(tokenizer, traces)[:20]
    trainer = TraceTrainer(
        model, Mixture({"trace": rows}, [Stage(3, {"trace": 1.0})]), SftConfig(steps=3),
        given=given,
    )  # fmt: skip
    for _ in range(3):
        trainer.advance()
    moved = (table.detach() - before).abs().sum(1) > 0
    assert not moved[given.still].any()
    assert not moved[given.words.tokens].any()  # until they are written
    assert moved.sum() > 100
    trainer.settle()
    moved = (table.detach() - before).abs().sum(1) > 0
    assert not moved[given.still].any()
    assert moved[given.words.tokens].all()
    assert cosine("wrote", "penned") > cosine("wrote", "born") + 0.2


@pytest.mark.parametrize(("width", "most"), [(128, 1e-6), (160, 1e-6), (64, 0.6)])
def test_slots_are_as_far_apart_as_can_be(width: int, most: float) -> None:
    vectors = slot_vectors(width)
    assert vectors.shape == (SLOTS, width)
    assert np.abs(vectors @ vectors.T - np.eye(SLOTS)).max() < most
    assert np.array_equal(vectors, slot_vectors(width))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_table_on_a_gpu_gets_the_same(tokenizer: Any, lexicon: Lexicon) -> None:
    here, there = (small_model(tokenizer, width=32, seed=4).to(d) for d in ("cpu", "cuda"))
    for model in (here, there):
        embed(model, tokenizer, lexicon)
    tables = [m.get_input_embeddings().weight.detach().cpu() for m in (here, there)]
    torch.testing.assert_close(*tables, atol=1e-5, rtol=1e-4)


def test_embedding_is_a_function_of_its_arguments(tokenizer: Any, lexicon: Lexicon) -> None:
    tables = []
    for _ in range(2):
        model = small_model(tokenizer, width=32, seed=4)
        embed(model, tokenizer, lexicon)
        tables.append(model.get_input_embeddings().weight.detach())
    assert torch.equal(*tables)
