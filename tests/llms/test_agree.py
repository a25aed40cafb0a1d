"""Log-probability checks notice another model, and pass the same one."""

from __future__ import annotations

import pytest

from searchgym.errors import EngineError
from searchgym.llms.agree import agreement
from searchgym.llms.base import GenRequest, Sampling
from searchgym.llms.transformers_generator import TransformersGenerator
from tests.llms import tiny
from tests.llms.letters import Letters

WORDS = tiny.tokenizer()
REQUESTS = [GenRequest((5, 9, 40 + i), Sampling(10, 0.8), key=i) for i in range(6)]


def make(seed: int) -> TransformersGenerator:
    return TransformersGenerator(tiny.model("qwen2", len(WORDS), seed), WORDS)


def test_the_same_model_agrees() -> None:
    found = agreement(make(0), make(0), REQUESTS)
    assert found.max < 1e-4
    assert found.mean <= found.max
    assert found.tokens > 30


def test_other_weights_do_not() -> None:
    one, other = make(0), make(0)
    other.model.lm_head.weight.data[7] += 0.05
    assert agreement(one, other, REQUESTS).max > 1e-3


def test_what_cannot_be_compared() -> None:
    with pytest.raises(EngineError, match="token ids"):
        agreement(make(0), make(0), [GenRequest("text")])
    with pytest.raises(EngineError, match="lacks score"):
        agreement(make(0), Letters(), REQUESTS)
    with pytest.raises(EngineError, match="did not answer"):
        agreement(make(0), make(0), [GenRequest((5,) * 500, Sampling(100))])
    with pytest.raises(EngineError, match="at least one"):
        agreement(make(0), make(0), [])
