"""Reading only what is new: the same tokens and numbers as reading everything, for every model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, GenRequest, Sampling
from searchgym.llms.caches import Past, Prefixes
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies import CausalLMPolicy
from searchgym.seeding import stream
from tests.policies.players import MANY_TURNS, WORDS, Tells, model
from tests.policies.talks import Talk, converse, largest_gap

pytestmark = pytest.mark.contract

REUSING = {"qwen2", "llama", "gpt_neox"}
SAMPLING = Sampling(max_tokens=9, stop=("e", "<"))


def make(kind: str, tokens: int, **options: Any) -> CausalLMPolicy:
    generator = TransformersGenerator(model(kind), WORDS, reuse_tokens=tokens, **options)
    return CausalLMPolicy(generator, sampling=SAMPLING)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_tokens": 1500}])
@pytest.mark.parametrize("kind", MANY_TURNS)
def test_ragged_turns_with_and_without_reuse_are_equal(kind: str, options: Any) -> None:
    plain, reusing = make(kind, 0), make(kind, 100_000, **options)
    talks, again = [Talk(s) for s in range(8)], [Talk(s) for s in range(8)]
    converse(plain, talks)
    converse(reusing, again)
    assert [t.segments for t in talks] == [t.segments for t in again]
    generator: Any = reusing.generator
    assert largest_gap(reusing, generator.model, again) < 1e-4
    prefixes = generator.prefixes
    if kind in REUSING:
        prompts = [len(w) for t in again for w in _prompts(reusing, t)]
        assert prefixes.reused > 0.4 * sum(prompts)
        assert len(prefixes) > 0
    else:
        assert prefixes.reused == len(prefixes) == 0, "a convolution's state is read again"


def _prompts(policy: CausalLMPolicy, talk: Talk) -> list[list[int]]:
    written = policy.memory.written(talk.id)
    return [[i for piece in w.prompt for i in piece] for w in written.values()]


@pytest.mark.parametrize("kind", sorted(REUSING))
def test_only_what_is_new_is_read(kind: str) -> None:
    lm = make(kind, 100_000)
    generator: Any = lm.generator
    talk = Talk(3, turns=3)
    widths: list[int] = []
    layer = generator.model.get_input_embeddings()
    layer.register_forward_hook(lambda _, given, __: widths.append(given[0].shape[1]))
    sizes = []
    for _ in range(3):
        before = len(widths)
        talk.hear(lm.act([talk.request])[0])
        sizes.append(widths[before])
        assert set(widths[before + 1 :]) <= {1}
    prompts = [len(p) for p in _prompts(lm, talk)]
    written = [len(lm.memory.written(talk.id)[n].completion.ids or ()) for n in range(3)]
    assert sizes[0] == prompts[0]
    for n in (1, 2):  # the last sampled token has not been read yet
        assert sizes[n] == prompts[n] - prompts[n - 1] - written[n - 1] + 1


def test_new_weights_forget_what_the_old_ones_read() -> None:
    lm = make("qwen2", 100_000)
    generator: Any = lm.generator
    talks = [Talk(s, turns=3) for s in range(3)]

    def turn() -> None:
        for talk, text in zip(talks, lm.act([t.request for t in talks]), strict=True):
            talk.hear(text)

    turn()
    assert len(generator.prefixes) == 3
    with torch.no_grad():  # a trainer's step, behind the generator's back
        generator.model.model.layers[0].self_attn.k_proj.weight.mul_(1.5)
    turn()
    assert generator.prefixes.reused == 0
    lm.weights_changed()
    turn()
    assert generator.prefixes.reused == 0
    for talk in talks:  # under the weights of now: what was said after the first turn
        written = lm.memory.written(talk.id)
        for record in (written[1], written[2]):
            prompt = tuple(i for piece in record.prompt for i in piece)
            score = generator.score([(prompt, record.completion.ids)])[0]
            np.testing.assert_allclose(score, record.completion.logp, atol=1e-4)


def test_what_is_released_is_read_anew() -> None:
    """So that a run which goes on from a file, with nothing kept, computes the same."""
    lm, other = make("qwen2", 100_000), make("qwen2", 0)
    generator: Any = lm.generator
    talk, again = Talk(3, turns=3), Talk(3, turns=3)
    for policy, said in ((lm, talk), (other, again)):
        for _ in range(2):
            said.hear(policy.act([said.request])[0])
    reused = generator.prefixes.reused
    assert reused > 0
    lm.release()
    other.release()  # keeps nothing
    assert (len(generator.prefixes), generator.prefixes._held) == (0, 0)
    assert lm.act([talk.request]) == other.act([again.request])
    assert generator.prefixes.reused == reused
    logp = [p.memory.written(talk.id)[2].completion.logp for p in (lm, other)]
    np.testing.assert_array_equal(*logp)
    CausalLMPolicy(Tells(lambda request: "x")).release()  # a generator that has nothing to free


def test_any_prompts_random_beginnings_and_small_stores() -> None:
    """Forks, repeats, prompts that are one token longer, stores that hold next to nothing."""
    draw = stream(11, "prefixes")
    plain = TransformersGenerator(model("qwen2"), WORDS)
    for tokens in (1, 60, 400, 100_000):
        reusing = TransformersGenerator(model("qwen2"), WORDS, reuse_tokens=tokens)
        texts: list[tuple[int, ...]] = [tuple(draw.integers(3, 400, 20).tolist())]
        for step in range(5):
            batch = []
            for i in range(6):
                start = texts[int(draw.integers(len(texts)))]
                more = draw.integers(3, 400, int(draw.integers(0, 12))).tolist()
                sampling = Sampling(int(draw.integers(1, 9)), float(draw.choice([0.0, 1.0])))
                batch.append(GenRequest((*start, *more), sampling, key=10 * step + i))
            for request, a, b in zip(batch, plain.run(batch), reusing.run(batch), strict=True):
                assert isinstance(a, Completion)
                assert isinstance(b, Completion)
                assert (a.ids, a.text) == (b.ids, b.text)
                np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
                texts.append((*request.prompt, *(a.ids or ())))  # type: ignore[arg-type]
        assert reusing.prefixes is not None
        assert reusing.prefixes._held <= tokens
        assert (reusing.prefixes.reused > 0) == (tokens >= 60)


def past(length: int) -> Past:
    return Past(length, ())


def test_the_longest_proper_beginning_is_found_and_the_oldest_go() -> None:
    kept = Prefixes(10)
    kept.put((1, 2, 3), past(2))
    kept.put((1, 2, 3, 4, 5), past(4))
    kept.put((9, 9, 9), past(3))
    assert kept.find((1, 2, 3)) == past(2)
    assert kept.find((1, 2, 3, 4, 7)) == past(4)
    assert kept.find((1, 2)) is None
    assert kept.find((1, 2, 3, 4)) == past(2), "at least one token must be read"
    assert kept.find((2, 1, 3)) is None
    kept.put((8, 8), past(2))  # 11 tokens: the 9s were never used
    assert kept.find((9, 9, 9, 9)) is None
    assert kept.find((8, 8, 8)) == past(2)
    kept.put(tuple(range(11)), past(11))
    assert len(kept) == 3, "what is too large is not kept"
    kept.belong_to("other weights")
    assert len(kept) == 0
    assert kept.find((8, 8, 8)) is None


def test_a_store_has_a_size() -> None:
    with pytest.raises(EngineError, match="reuse_tokens must not be negative"):
        TransformersGenerator(model("qwen2"), WORDS, reuse_tokens=-1)
