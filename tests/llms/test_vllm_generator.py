"""vLLM in this process against transformers, on the same tiny weights.

Runs in an environment of its own (``make vllm``): vLLM needs its own torch and transformers.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, Generator, GenRequest, Message, Sampling
from searchgym.llms.registry import build_generator
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.types import Failure
from tests.llms import tiny
from tests.llms.checks import check_stops, done, largest_gap, ragged

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

PROMPTS = (
    "The capital of Paris",
    "a",
    "<search>Velmora river</search> The river of Velmora is blue. " * 3,
    "née Łódź 東京",
    "The mayor of Tarsis is Ana Bell. The founder",
)
requests = partial(ragged, PROMPTS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("m") / "qwen2")


@pytest.fixture(scope="session")
def vllm(folder: Path) -> Any:
    begun = time.monotonic()
    made = build_generator(
        {
            "name": "vllm",
            "model": str(folder),
            "dtype": "float32",
            "enforce_eager": True,
            "kv_cache_gb": 1,
            "entropy": True,
        }
    )
    print(f"\nvLLM started in {time.monotonic() - begun:.1f} s")
    return made


@pytest.fixture(scope="session")
def plain(folder: Path) -> TransformersGenerator:
    return TransformersGenerator(folder, dtype="float32", device="cpu")


def encoded(plain: TransformersGenerator, batch: list[GenRequest]) -> list[GenRequest]:
    return [r._replace(prompt=plain.encode(r)) for r in batch]


def test_it_is_a_generator(vllm: Any) -> None:
    assert isinstance(vllm, Generator)
    assert vllm.context == 512


def test_greedy_texts_are_those_of_transformers(vllm: Any, plain: TransformersGenerator) -> None:
    batch = [r._replace(needs=frozenset({"entropy"})) for r in requests(temperature=0.0)]
    for a, b in zip(done(vllm.run(batch)), done(plain.run(batch)), strict=True):
        assert (a.text, a.ids, a.ends, a.finish) == (b.text, b.ids, b.ends, b.finish)
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
        np.testing.assert_allclose(a.entropy, b.entropy, atol=1e-3)


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.7, "temperature": 1.3}]
)
def test_log_probabilities_agree(
    vllm: Any, plain: TransformersGenerator, sampling: dict[str, Any]
) -> None:
    """Of vLLM's own samples, and of ours as vLLM scores them: untempered both."""
    batch = encoded(plain, requests(**sampling))
    for sampler, scorer in ((vllm, plain), (plain, vllm), (vllm, vllm)):
        assert largest_gap(sampler, scorer, batch) < 1e-4


def test_keys_decide_whatever_the_batch(vllm: Any) -> None:
    many = [GenRequest(PROMPTS[0], Sampling(20), key=k) for k in range(8)]
    first = [c.text for c in done(vllm.run(many))]
    order = [5, 2, 7, 0, 1, 3, 6, 4]
    second = [c.text for c in done(vllm.run([many[i] for i in order] + requests()))]
    assert [second[order.index(i)] for i in range(8)] == first
    assert [done(vllm.run([r]))[0].text for r in many] == first
    assert len(set(first)) > 4


def test_stop_strings(vllm: Any) -> None:
    check_stops(vllm, PROMPTS)


def test_refusals_and_chats(vllm: Any, plain: TransformersGenerator) -> None:
    long = (5,) * 505
    a, b, c = vllm.run(
        [GenRequest(long, Sampling(8)), GenRequest("", Sampling(8)), GenRequest("The", Sampling(3))]
    )
    assert isinstance(a, Failure)
    assert "exceed the model's 512" in a.message
    assert isinstance(b, Failure)
    assert isinstance(c, Completion)
    assert (c.finish, len(c.ids or ())) == ("length", 3)
    chat = GenRequest((Message("user", "Who?"),), Sampling(6, 0.0))
    assert done(vllm.run([chat]))[0].ids == done(plain.run([chat]))[0].ids
    with pytest.raises(EngineError, match="needs names"):
        vllm.run([GenRequest("x", needs=frozenset({"sight"}))])


def test_a_timeout_leaves_the_engine_usable(vllm: Any) -> None:
    want = done(vllm.run(requests()))
    vllm.timeout_s = 0.05
    try:
        late = vllm.run([GenRequest(p, Sampling(300), key=i) for i, p in enumerate(PROMPTS * 20)])
    finally:
        vllm.timeout_s = None
    assert any(isinstance(x, Failure) and x.kind == "timeout" for x in late)
    assert not vllm.llm.llm_engine.has_unfinished_requests()
    assert [c.text for c in done(vllm.run(requests()))] == [c.text for c in want]


def test_weights_are_replaced_in_place(vllm: Any, plain: TransformersGenerator) -> None:
    """After an update, texts, scores and cached prefixes are the new model's; and back."""
    batch = encoded(plain, requests(temperature=0.0, max_tokens=12))
    old, old_print = done(vllm.run(batch)), vllm.fingerprint
    first = plain.model.state_dict()
    other = tiny.model("qwen2", plain.model.config.vocab_size, seed=1)
    new = TransformersGenerator(other, plain.tokenizer)
    version = vllm.version
    assert vllm.update_weights(other.state_dict()) == version + 1
    got = done(vllm.run(batch))
    assert [c.ids for c in got] == [c.ids for c in done(new.run(batch))]
    assert [c.ids for c in got] != [c.ids for c in old]
    assert {c.version for c in got} == {version + 1}
    assert vllm.fingerprint != old_print
    assert largest_gap(new, vllm, batch) < 1e-4
    assert largest_gap(plain, vllm, batch) > 1e-2
    with pytest.raises(EngineError, match=r"missing: lm_head\.weight"):
        vllm.update_weights({k: v for k, v in first.items() if "lm_head" not in k})
    with pytest.raises(EngineError, match=r"unknown: no\.such"):
        vllm.update_weights({**first, "no.such": first["lm_head.weight"]})
    with pytest.raises(EngineError, match="of other shape: lm_head"):
        vllm.update_weights({**first, "lm_head.weight": first["lm_head.weight"][:9]})
    assert vllm.version == version + 1
    assert largest_gap(new, vllm, batch) < 1e-4  # a refused update changes nothing
    vllm.update_weights(first)
    assert [c.ids for c in done(vllm.run(batch))] == [c.ids for c in old]
    assert vllm.fingerprint == old_print


def test_prefixes_are_computed_once(vllm: Any) -> None:
    prompt = tuple(range(3, 303))
    outs = vllm._drive([(prompt, vllm._sampling(GenRequest(prompt, Sampling(2))))])
    again = vllm._drive([(prompt, vllm._sampling(GenRequest(prompt, Sampling(2))))])
    assert outs[0].num_cached_tokens < 100
    assert again[0].num_cached_tokens > 200


def test_speed(vllm: Any, plain: TransformersGenerator) -> None:
    """Printed, not judged: it depends on the machine."""
    batch = [GenRequest(PROMPTS[0], Sampling(64, 1.0), key=i) for i in range(128)]
    vllm.run(batch[:4])
    for generator in (vllm, plain):
        begun = time.monotonic()
        n = sum(len(c.ids or ()) for c in done(generator.run(batch)))
        took = time.monotonic() - begun
        print(f"\n{type(generator).__name__}: {n / took:,.0f} generated tokens/s")
