"""The frozen encoder: word vectors, cache, and what a batch may change. Needs the bundled model."""

import pickle

import numpy as np
import pytest
import torch

from searchgym.agents import make_state
from searchgym.errors import CardError, DataError
from searchgym.llms import fast_dtype
from searchgym.types import Passage
from searchgym.utils.english import tokenise
from searchgym_agents.candidate.encoder import SCALE, WordEncoder, bundled_model
from searchgym_agents.candidate.features import FeatureBuilder

TEXTS = [
    "The film was directed by Velda Morrin.",
    "Velda Morrin was the director of the movie, says Żołnierz (née O'Brien).",
    "Rivers carry 12,500 tons of sand.",
    "",
]


@pytest.fixture(scope="module")
def encoder():
    return WordEncoder()


def test_one_unit_vector_per_word(encoder):
    for text in TEXTS:
        words = tokenise(text)
        got = encoder(words)
        assert got.shape == (len(words.start), encoder.dim)
        np.testing.assert_allclose((got**2).sum(1), 1, atol=0.02)


def test_related_words_are_nearer_than_unrelated_ones(encoder):
    a, b, c = (encoder(tokenise(t)) for t in TEXTS[:3])
    assert a[1] @ b[7] > a[1] @ c[0] + 0.1  # film, movie; rivers


def test_the_faster_kind_of_numbers_is_taken_unless_told_otherwise(tmp_path):
    """Emulated bfloat16 takes three times as long as float32."""
    own = WordEncoder()
    assert own.dtype == str(fast_dtype()).removeprefix("torch.")
    half, whole = (WordEncoder(dtype=kind, cache=tmp_path) for kind in ("bfloat16", "float32"))
    assert own.name == (half if own.dtype == "bfloat16" else whole).name
    assert half.name != whole.name
    words = tokenise(TEXTS[0])
    assert ((half(words) * whole(words)).sum(1) > 0.98).all()
    assert len(list(tmp_path.iterdir())) == 2  # cached apart
    assert WordEncoder(device="cuda").dtype == "bfloat16"


def test_how_many_threads_there_are_changes_no_bit():
    """Batches are computed in one thread each, side by side."""
    words = [tokenise(f"{TEXTS[n % 3]} This is number {n}." * (1 + n % 7)) for n in range(12)]
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            done = []
            encoder = WordEncoder(batch_pieces=96)
            encoder.prepare(words, lambda *progress, done=done: done.append(progress))
            assert len(done) > 2
            assert done[-1] == (12, 12)
            found.append([encoder(w) for w in words])
        finally:
            torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


def test_batch_composition_barely_matters(encoder):
    alone, together = WordEncoder(), WordEncoder()
    words = [tokenise(t) for t in TEXTS[:3]]
    together.prepare(words)
    for w in words:
        a, b = alone(w), together(w)
        assert ((a * b).sum(1) > 0.98).all()


def test_a_copy_knows_what_was_known_when_it_was_made(tmp_path):
    """Not what others write meanwhile: what a process finds does not depend on who is faster."""
    first = FeatureBuilder(WordEncoder(cache=tmp_path))
    words = [tokenise(text) for text in TEXTS]
    first.encoder.prepare(words[:2])
    sent = pickle.dumps(first)
    first.encoder.prepare(words[2:])
    copy = pickle.loads(sent)
    assert len(copy.encoder.store) == 2
    for known in words[:2]:
        assert np.array_equal(first.encoder(known), copy.encoder(known))
    assert copy.encoder.encoded == 2  # by the one that it is a copy of
    copy.encoder.prepare(words)
    assert copy.encoder.encoded == 4
    assert np.array_equal(first.encoder.spelt(["river", ""]), copy.encoder.spelt(["river", ""]))


@pytest.mark.parametrize("dtype", ["int8", "float16", ""])
def test_other_kinds_of_numbers_are_refused(dtype):
    with pytest.raises(CardError, match="expected 'float32' or 'bfloat16'"):
        WordEncoder(dtype=dtype)


def test_words_before_they_are_read_are_the_same_in_both_kinds_of_numbers():
    half, whole = WordEncoder(dtype="bfloat16"), WordEncoder(dtype="float32")
    words = ["river", "Żołnierz", "cut \ud83d"]
    assert np.array_equal(half.spelt(words), whole.spelt(words))


def test_cache_is_read_back_exactly_and_broken_shards_are_named(tmp_path):
    first = WordEncoder(cache=tmp_path)
    told = []
    first.prepare([tokenise(t) for t in TEXTS], lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == len(TEXTS)
    again = WordEncoder(cache=tmp_path)
    for text in TEXTS:
        assert np.array_equal(first(tokenise(text)), again(tokenise(text)))
    assert again.encoded == 0
    shard = next(tmp_path.glob("*/*.safetensors"))
    shard.write_bytes(b"broken")
    with pytest.raises(DataError, match=shard.name):
        WordEncoder(cache=tmp_path)


def test_words_beyond_the_limit_get_zero_vectors():
    short = WordEncoder(max_pieces=8)
    got = short(tokenise("one two three four five six seven eight nine ten eleven"))
    assert got[0].any()
    assert not got[-1].any()


def test_a_text_passes_the_first_layers_only():
    """Compared with the states that transformers gives for the whole model."""
    texts = [tokenise(t) for t in TEXTS]
    short, whole = WordEncoder(dtype="float32"), WordEncoder(dtype="float32", layers=6)
    assert (short.layers, whole.layers) == (3, 6)
    assert short.name != whole.name
    assert WordEncoder(bundled_model()).layers == 6, "a folder of one's own is not cut unasked"
    tokenizer, model = whole._load_tokenizer(), whole._load_model()
    for words in texts:
        found = tokenizer.encode(words.text)
        with torch.inference_mode():
            out = model(torch.tensor([found.ids]), output_hidden_states=True)
        third = out.hidden_states[3][0].numpy()
        np.testing.assert_allclose(
            short(words), short._words(words, found.offsets, third) / SCALE, atol=0.01
        )


@pytest.mark.parametrize("layers", [0, -1, 7])
def test_layers_that_the_model_does_not_have_are_refused(layers):
    with pytest.raises(CardError, match="expected 1 to 6"):
        WordEncoder(layers=layers)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"config\.json"):
        WordEncoder(tmp_path)


def test_soft_columns_see_synonyms(encoder):
    passage = Passage("p", "Heat", "The movie was shot by Velda Morrin.", "u")
    state = make_state("Who filmed Heat?", ["Heat"], [(passage, 0, 0)], 2, None)
    soft, plain = FeatureBuilder(encoder)(state), FeatureBuilder(None)(state)
    assert soft.candidates == plain.candidates
    assert (soft.features != plain.features).any()
    assert np.isfinite(soft.features).all()
