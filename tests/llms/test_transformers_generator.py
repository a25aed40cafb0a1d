"""The transformers generator against plain forward passes, alone and in ragged batches."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, Generator, GenRequest, Message, Sampling
from searchgym.llms.prompts import weights_digest
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.seeding import stream
from searchgym.types import Failure
from tests.llms import tiny
from tests.llms.checks import check_stops, done, ragged

WORDS = tiny.tokenizer()
PROMPTS = (
    "The capital of Paris",
    "a",
    "<search>Velmora river</search> The river of Velmora is blue. " * 3,
    "née Łódź 東京",
    "The mayor of Tarsis is Ana Bell. The founder",
    "The capital of Paris",
)
requests = partial(ragged, PROMPTS)


def make(kind: str = "qwen2", seed: int = 0, **options: Any) -> TransformersGenerator:
    return TransformersGenerator(tiny.model(kind, len(WORDS), seed), WORDS, **options)


@pytest.fixture(scope="module", params=["qwen2", "llama", "lfm2"])
def generator(request: pytest.FixtureRequest) -> TransformersGenerator:
    return make(request.param)


def reference(g: TransformersGenerator, prompt: tuple[int, ...], ids: tuple[int, ...]) -> Any:
    """(N, V) log-probabilities from one plain forward pass: no padding, no cache, no batch."""
    with torch.no_grad():
        logits = g.model(torch.tensor([[*prompt, *ids]])).logits[0]
    return logits.log_softmax(-1)[len(prompt) - 1 : -1]


def test_it_is_a_generator(generator: TransformersGenerator) -> None:
    assert isinstance(generator, Generator)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
def test_a_ragged_batch_is_one_by_one(generator: TransformersGenerator, temperature: float) -> None:
    batch = requests(temperature=temperature)
    together = done(generator.run(batch))
    alone = [done(generator.run([r]))[0] for r in batch]
    assert len({len(c.ids or ()) for c in together}) > 2, "lengths must differ"
    for request, a, b in zip(batch, together, alone, strict=True):
        assert (a.text, a.ids, a.ends, a.finish) == (b.text, b.ids, b.ends, b.finish)
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
        np.testing.assert_allclose(a.entropy, b.entropy, atol=1e-4)
        want = reference(generator, generator.encode(request), a.ids or ())
        picked = want[torch.arange(len(a.ids or ())), list(a.ids or ())]
        np.testing.assert_allclose(a.logp, picked, atol=1e-4)
        np.testing.assert_allclose(a.entropy, -(want.exp() * want).sum(-1), atol=1e-3)
    if temperature == 0:
        for request, a in zip(batch, together, strict=True):
            want = reference(generator, generator.encode(request), a.ids or ())
            assert want.argmax(-1).tolist() == list(a.ids or ())


def test_samples_follow_the_model(generator: TransformersGenerator) -> None:
    """First tokens of 3,000 keys against the exact distribution at temperature 0.8."""
    n, heat = 3000, 0.8
    prompt = generator.encode(GenRequest(PROMPTS[0]))
    answers = done(generator.run([GenRequest(prompt, Sampling(1, heat), key=i) for i in range(n)]))
    got = np.bincount([a.ids[0] for a in answers if a.ids], minlength=len(WORDS)) / n
    logits = reference(generator, prompt, (0,))[0] / heat
    want = logits.softmax(-1).numpy()
    assert np.abs(got - want).max() < 5 * np.sqrt(0.25 / n)
    assert np.corrcoef(got, want)[0, 1] > 0.9


def test_keys_decide_whatever_the_batch(generator: TransformersGenerator) -> None:
    sampling = Sampling(max_tokens=20)
    many = [GenRequest(PROMPTS[0], sampling, key=k) for k in range(8)]
    first = [c.text for c in done(generator.run(many))]
    order = [5, 2, 7, 0, 1, 3, 6, 4]
    mixed = [many[i] for i in order] + requests()
    second = [c.text for c in done(generator.run(mixed))]
    assert [second[order.index(i)] for i in range(8)] == first
    assert len(set(first)) > 4, "other keys, other texts"
    small = make("qwen2", batch_size=1)
    assert [c.text for c in done(small.run(many))] == [
        c.text for c in done(make("qwen2").run(many))
    ]


def test_stop_strings(generator: TransformersGenerator) -> None:
    for got in check_stops(generator, PROMPTS, beside=requests(max_tokens=5)):
        assert len(got.entropy) == len(got.ids)  # type: ignore[arg-type]


def test_the_token_a_stop_ends_in_is_kept() -> None:
    g = make()
    free = done(g.run([GenRequest(PROMPTS[0], Sampling(30), key=i) for i in range(30)]))
    for key, whole in enumerate(free):
        ends, ids = (0, *(whole.ends or ())), whole.ids or ()
        for i, token in enumerate(ids):
            piece = whole.text[ends[i] : ends[i + 1]]
            if len(piece) > 2 and WORDS.decode([token]) == piece:
                stop = piece[:2]
                if whole.text.index(stop) == ends[i]:
                    again = GenRequest(PROMPTS[0], Sampling(30, stop=(stop,)), key)
                    cut_off = done(g.run([again]))[0]
                    assert cut_off.ids == ids[: i + 1]
                    assert cut_off.text == whole.text[: ends[i] + 2]
                    assert WORDS.decode(cut_off.ids) == whole.text[: ends[i + 1]]
                    return
    pytest.fail("no token of several characters was sampled")


def test_the_end_token_ends_and_is_scored() -> None:
    g = make()
    with torch.no_grad():
        g.model.lm_head.weight[0] = g.model.lm_head.weight.std(0) * 0  # a likely end token
        g.model.lm_head.weight[0] += g.model.model.norm.weight * 0.02
    answers = done(g.run([GenRequest(PROMPTS[0], Sampling(200), key=i) for i in range(64)]))
    ended = [a for a in answers if a.finish == "eos"]
    assert any((a.ids or ())[-1] == 0 for a in ended)
    for a in ended:
        assert (a.ids or ())[-1] in g.eos  # the end of a text, or of a message
        assert not g.eos & set((a.ids or ())[:-1])
        assert tiny.END not in a.text
        assert tiny.MARK not in a.text
        assert (a.ends or ())[-1] == len(a.text)
        score = g.score([(g.encode(GenRequest(PROMPTS[0])), a.ids or ())])[0]
        np.testing.assert_allclose(score, a.logp, atol=1e-4)


def test_score(generator: TransformersGenerator) -> None:
    pairs = [
        (generator.encode(GenRequest(p)), tuple(WORDS(c)["input_ids"]))
        for p, c in zip(
            PROMPTS, ("x", "", " is blue", "東京", " of Tarsis is blue", "?"), strict=True
        )
    ]
    scores = generator.score(pairs)
    for (context, continuation), got in zip(pairs, scores, strict=True):
        assert not isinstance(got, Failure)
        assert got.dtype == np.float32
        assert len(got) == len(continuation)
        if continuation:
            want = reference(generator, context, continuation)
            np.testing.assert_allclose(
                got, want[torch.arange(len(continuation)), list(continuation)], atol=1e-4
            )
    small = make("qwen2", batch_tokens=60)
    for a, b in zip(small.score(pairs), make("qwen2").score(pairs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)  # type: ignore[arg-type]


def test_scores_are_the_samples_log_probabilities(generator: TransformersGenerator) -> None:
    batch = requests(temperature=0.6, top_k=20, top_p=0.9)
    answers = done(generator.run(batch))
    scores = generator.score(
        [(generator.encode(r), a.ids or ()) for r, a in zip(batch, answers, strict=True)]
    )
    for a, s in zip(answers, scores, strict=True):
        np.testing.assert_allclose(a.logp, s, atol=1e-4)  # type: ignore[arg-type]


def test_nothing_is_cut_silently() -> None:
    g = make(batch_tokens=100)
    long = tuple([5] * 505)
    answers = g.run(
        [
            GenRequest(long, Sampling(7)),
            GenRequest(long, Sampling(8)),
            GenRequest("", Sampling(8)),
            GenRequest("The", Sampling(3)),
        ]
    )
    assert isinstance(answers[0], Completion)
    assert len(answers[0].ids or ()) == 7
    for i, words in ((1, "exceed the model's 512"), (2, "no tokens")):
        failure = answers[i]
        assert isinstance(failure, Failure)
        assert failure.kind == "rejected"
        assert not failure.retryable
        assert words in failure.message
    assert isinstance(answers[3], Completion)
    assert (answers[3].finish, len(answers[3].ids or ())) == ("length", 3)
    assert isinstance(g.score([((), (5,))])[0], Failure)
    assert isinstance(g.score([(long, (5,) * 8)])[0], Failure)


def test_the_time_budget_is_kept() -> None:
    g = make(timeout_s=0.3, batch_size=2)
    begun = time.monotonic()
    answers = g.run([GenRequest(p, Sampling(400), key=i) for i, p in enumerate(PROMPTS)] * 10)
    assert time.monotonic() - begun < 5
    late = [a for a in answers if isinstance(a, Failure)]
    assert late
    assert all(f.kind == "timeout" and f.retryable for f in late)


def test_chats_go_through_the_template(generator: TransformersGenerator) -> None:
    chat = (Message("system", "Be short."), Message("user", "Who?"))
    text = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
    assert WORDS.decode(generator.encode(GenRequest(chat))) == text + "<|im_start|>assistant\n"
    going_on = (*chat, Message("assistant", "It is"))
    want = text + "<|im_start|>assistant\nIt is"
    assert WORDS.decode(generator.encode(GenRequest(going_on))) == want
    a, b = done(
        generator.run(
            [
                GenRequest(chat, Sampling(6), 3, frozenset({"chat", "logp"})),
                GenRequest(generator.encode(GenRequest(chat)), Sampling(6), 3),
            ]
        )
    )
    assert a.ids == b.ids
    plain = TransformersGenerator(tiny.model("qwen2", len(WORDS)), tiny.tokenizer())
    plain.tokenizer.chat_template = None
    bare = TransformersGenerator(plain.model, plain.tokenizer)
    with pytest.raises(EngineError, match="lacks chat"):
        bare.run([GenRequest(chat)])


def test_memory_bounds_change_nothing() -> None:
    batch = requests()
    want = [c.text for c in done(make().run(batch))]
    for options in ({"batch_tokens": 1}, {"batch_tokens": 150}, {"batch_size": 2}):
        assert [c.text for c in done(make(**options).run(batch))] == want


def test_weights_can_be_updated() -> None:
    g, other = make(), make(seed=1)
    before = done(g.run(requests()))
    prints = {g.fingerprint}
    assert g.fingerprint in prints
    assert other.fingerprint not in prints
    assert g.update_weights(other.model.state_dict()) == 1
    after = done(g.run(requests()))
    assert [c.text for c in after] == [c.text for c in done(other.run(requests()))]
    assert [c.text for c in after] != [c.text for c in before]
    assert {c.version for c in before} == {0}
    assert {c.version for c in after} == {1}
    assert g.fingerprint == other.fingerprint, "the same weights are the same model"
    with torch.no_grad():  # a trainer's step, behind the generator's back
        g.model.lm_head.weight[3, 3] += 0.5
    assert g.fingerprint != other.fingerprint
    with pytest.raises(EngineError, match="do not fit"):
        g.update_weights({"lm_head.weight": torch.zeros(2, 2)})


def test_a_digest_is_of_every_bit_and_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = torch.randn(70_003, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int8):
        tensor = drawn.to(dtype)
        was = weights_digest([("w", tensor)])
        apart = torch.cat([tensor[:1], tensor])[1:]  # begins in the middle of a word
        strided = torch.stack([tensor, tensor], 1)[:, 0]
        for same in (tensor.clone(), apart, strided):
            assert weights_digest([("w", same)]) == was
        for place in (1, 35_000, 70_001, 70_002):
            other = tensor.clone()
            other[place] += 1
            assert weights_digest([("w", other)]) != was
        assert weights_digest([("w", tensor)], "more") != was
        assert weights_digest([("v", tensor)]) != was
    assert weights_digest([("w", torch.zeros(0))]) != weights_digest([("w", torch.zeros(1))])
    monkeypatch.setattr(torch.Tensor, "double", None, raising=False)
    weights_digest([("w", drawn)])


def test_a_model_in_training_is_handed_back_so() -> None:
    g = make("llama")
    g.model.train()
    done(g.run(requests(max_tokens=2)))
    assert g.model.training
    assert all(p.requires_grad for p in g.model.parameters())
    loss = g.model(torch.tensor([[1, 2, 3]])).logits.sum()
    loss.backward()


def test_no_global_randomness() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    a = done(make().run(requests()))
    torch.manual_seed(2)
    assert [c.text for c in a] == [c.text for c in done(make().run(requests()))]
    torch.manual_seed(1)
    done(make().run(requests()))
    assert torch.equal(torch.get_rng_state(), before)


def test_from_a_folder(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "m")
    g = TransformersGenerator(folder, dtype="float32", device="cpu")
    assert g.model.dtype == torch.float32
    assert g.fingerprint == TransformersGenerator(str(folder)).fingerprint
    batch = requests(max_tokens=3)
    assert [c.text for c in done(g.run(batch))] == [c.text for c in done(make().run(batch))]
    half = TransformersGenerator(folder, dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    assert half.fingerprint != g.fingerprint
    assert done(half.run(batch))[0].logp.dtype == np.float32  # type: ignore[union-attr]
    with pytest.raises(EngineError, match="cannot load a causal LM"):
        TransformersGenerator(tmp_path / "nowhere")
    with pytest.raises(EngineError, match="needs its tokenizer"):
        TransformersGenerator(g.model)


def test_impossible_requests_are_errors() -> None:
    g = make()
    for sampling in (
        Sampling(0),
        Sampling(temperature=-1),
        Sampling(top_p=0),
        Sampling(stop=("",)),
    ):
        with pytest.raises(EngineError):
            g.run([GenRequest("x", sampling)])
    with pytest.raises(EngineError, match="needs names typo"):
        g.run([GenRequest("x", needs=frozenset({"typo"}))])
    with pytest.raises(EngineError, match="a prompt is a string"):
        g.run([GenRequest(("a", "b"))])  # type: ignore[arg-type]


def test_cache_keys() -> None:
    g = make()
    a = GenRequest("x", Sampling(), 1)
    assert g.cache_key(a) == g.cache_key(GenRequest("x", Sampling(), 1))
    others = [
        GenRequest("y", Sampling(), 1),
        GenRequest("x", Sampling(), 2),
        GenRequest("x", Sampling(max_tokens=7), 1),
        GenRequest("x", Sampling(stop=("s",)), 1),
        GenRequest((1, 2), Sampling(), 1),
        GenRequest((12,), Sampling(), 1),
        GenRequest((Message("user", "x"),), Sampling(), 1),
    ]
    assert len({g.cache_key(r) for r in [a, *others]}) == 8
    greedy = Sampling(temperature=0)
    assert g.cache_key(GenRequest("x", greedy, 1)) == g.cache_key(GenRequest("x", greedy, 2))


def test_random_ragged_batches(generator: TransformersGenerator) -> None:
    """Random ids, lengths, limits and settings: every row as if alone."""
    draw = stream(5, "ragged")
    for _ in range(4):
        batch = [
            GenRequest(
                tuple(int(i) for i in draw.integers(3, len(WORDS), draw.integers(1, 40))),
                Sampling(
                    int(draw.integers(1, 25)),
                    float(draw.choice([0.0, 0.5, 1.0, 1.5])),
                    float(draw.choice([1.0, 0.9])),
                    int(draw.choice([0, 5])),
                ),
                key=int(draw.integers(1 << 60)),
            )
            for _ in range(12)
        ]
        for a, r in zip(done(generator.run(batch)), batch, strict=True):
            b = done(generator.run([r]))[0]
            assert a.ids == b.ids
            np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
