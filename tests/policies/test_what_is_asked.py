"""Impossible settings are refused before anything is played; what a server leaves out is made up
for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from searchgym.errors import EngineError
from searchgym.llms import Completion, Sampling, TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from tests.policies.eager import NAME
from tests.policies.players import WORDS, model
from tests.small import TASKS, episode


def policy(**sampling: Any) -> CausalLMPolicy:
    return CausalLMPolicy(
        TransformersGenerator(model("qwen2"), WORDS), sampling=Sampling(**sampling)
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"max_tokens": 0}, "max_tokens ≥ 1"), ({"max_tokens": -5}, "max_tokens ≥ 1"),
     ({"stop": "ab"}, "non-empty strings")],
)  # fmt: skip
def test_impossible_sampling_is_no_full_context(wrong: dict[str, Any], said: str) -> None:
    (request,) = episode(TASKS[0], dialect=NAME).requests()
    with pytest.raises(EngineError, match=said):
        policy(**wrong).act([request])


def test_ends_that_a_server_leaves_out_are_the_tokenizers() -> None:
    """Half a character is no text: token strings of a server then do not join to the text."""
    (request,) = episode(TASKS[0], dialect=NAME).requests()
    text = "café é"
    ids = tuple(WORDS(text, add_special_tokens=False)["input_ids"])
    mine = policy()
    heard = mine.remember(request, Completion(text, ids, np.zeros(len(ids), np.float32), None, 0))
    assert heard.ends is not None
    assert len(heard.ends) == len(ids)
    assert list(heard.ends) == sorted(heard.ends)
    assert heard.ends[-1] == len(text)
    with pytest.raises(EngineError, match="gave no ids or logp"):
        mine.remember(request, Completion(text, None, None, None, 0))
