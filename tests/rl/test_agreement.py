"""A generator with a copy of the weights is checked on the tokens it drew."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from searchgym.errors import CardError, EngineError
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.rl.diagnostics import EXACT, ROUNDED, tolerance
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import SAMPLING, player, setting, tokenizer
from tests.rl.trainers import weights


class Forgetful(TransformersGenerator):
    """Says that it has taken over weights."""

    def update_weights(self, weights: Any) -> int:
        self.version += 1
        return self.version


GAP = "sampling_logp_difference/max"


def run(kind: Any, recipe: str = "grpo", **options: Any) -> Trainer:
    lm, _ = player(0)
    generator = kind(copy.deepcopy(lm.model), tokenizer())
    policy = CausalLMPolicy(generator, sampling=SAMPLING, seed=0)
    config = TrainConfig(steps=3, tasks=4, lr=1e-2, **options)
    return Trainer(setting(), lm, recipe, config, policy=policy)


def test_a_copy_gives_the_same_run() -> None:
    copied = run(TransformersGenerator)
    seen = list(copied.train())
    assert max(m[GAP] for m in seen) < 1e-5
    lm, policy = player(0)
    shared = Trainer(setting(), lm, "grpo", TrainConfig(steps=3, tasks=4, lr=1e-2), policy=policy)
    assert GAP not in list(shared.train())[-1]
    torch.testing.assert_close(weights(copied.lm), weights(lm), atol=1e-6, rtol=1e-5)


def test_old_weights_are_found_out() -> None:
    trainer = run(Forgetful)
    assert trainer.advance()[GAP] < 1e-5
    with pytest.raises(
        EngineError, match=r"Forgetful and the trainer disagree on LlamaForCausalLM"
    ):
        trainer.advance()
    lenient = run(Forgetful, agreement=100.0)
    assert [m[GAP] > EXACT for m in lenient.train()] == [False, True, True]


def test_rounding_to_half_precision_is_no_disagreement() -> None:
    """The trainer multiplies in bfloat16, the copy that plays in float32."""
    trainer = run(TransformersGenerator)
    trainer.lm.autocast = "bfloat16"
    gaps = [m[GAP] for m in trainer.train()]
    assert all(EXACT < gap < ROUNDED for gap in gaps)


def test_a_generator_in_half_precision_rounds_too() -> None:
    """The trainer multiplies in float32, the copy that plays in bfloat16."""
    lm, _ = player(0)
    assert lm.dtype == torch.float32
    generator = TransformersGenerator(copy.deepcopy(lm.model).to(torch.bfloat16), tokenizer())
    policy = CausalLMPolicy(generator, sampling=SAMPLING, seed=0)
    trainer = Trainer(setting(), lm, "grpo", TrainConfig(steps=3, tasks=4, lr=1e-2), policy=policy)
    assert all(EXACT < m[GAP] < ROUNDED for m in trainer.train())


def test_what_nobody_drew_is_not_compared() -> None:
    """Demonstrations have no log-probabilities."""
    assert all(GAP not in m for m in run(TransformersGenerator, "sft").train())


def test_limits() -> None:
    assert tolerance(torch.float32) == EXACT < tolerance(torch.bfloat16) == ROUNDED
    half, single = SimpleNamespace(dtype=torch.bfloat16), SimpleNamespace(dtype=torch.float32)
    assert tolerance(torch.float32, half) == tolerance(torch.bfloat16, single) == ROUNDED
    assert tolerance(torch.float32, single) == tolerance(torch.float64, single) == EXACT
    assert tolerance(torch.float32, SimpleNamespace(model=half)) == ROUNDED
    assert tolerance(torch.float32, object()) == EXACT, "not known: as the trainer's"
    with pytest.raises(CardError, match=r"agreement must be a number above 0 or None, got 0\.0"):
        TrainConfig(agreement=0.0)
