"""Families of causal models: what the sampler says of its tokens is what a plain forward
pass over the row alone says, with and without kept prefixes, before and after new weights. Prints
the table of what agreed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from searchgym.core import run_episodes
from searchgym.llms import Sampling
from searchgym.policies.trainable import TrainableLM
from tests.llms import tiny
from tests.policies.players import Tools
from tests.small import TASKS, episode

pytestmark = pytest.mark.slow
WORDS = tiny.tokenizer()
FAMILIES = (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "gpt2",
    "gpt_neox", "opt", "falcon", "olmo2", "starcoder2", "cohere", "granite", "smollm3", "stablelm",
    "bloom", "lfm2", "mixtral", "qwen3_moe", "olmoe", "gpt_oss",
)  # fmt: skip
NATS = 1e-4
"""Largest difference of a token's log-probability: rounding in 32 bits, and far below what one
misplaced position or mask makes of weights drawn this wide."""


def largest(lm: TrainableLM, reuse_tokens: int, step: int) -> tuple[float, int]:
    """Largest difference in nats of sampled tokens from a forward pass, and tokens compared."""
    policy: Any = lm.policy(
        "plain", reuse_tokens=reuse_tokens, sampling=Sampling(max_tokens=6), seed=step
    )
    worst, tokens = 0.0, 0
    for again in range(2):
        if again:  # the policy goes on with other weights
            with torch.no_grad():
                for p in lm.parameters():
                    p.add_(0.01)
            policy.weights_changed()
        played = [episode(TASKS[i % 2], f"{again}.{i}", max_turns=1 + i) for i in range(3)]
        run_episodes(played, policy, Tools())  # type: ignore[arg-type]
        for row in (row for e in played for row in policy.rows(e)):
            with torch.no_grad():
                logits = lm.model(input_ids=torch.tensor([row.ids.tolist()])).logits[0].double()
            every = logits.log_softmax(-1)[:-1].numpy()
            want = every[np.arange(len(row) - 1), row.ids[1:]]
            sampled = row.sampled[1:]
            tokens += int(sampled.sum())
            for got in (row.logp[1:], lm.logp([row]).detach()[0, 1:].numpy()):
                worst = max(worst, float(np.abs(want - got)[sampled].max()))
    return worst, tokens


@pytest.mark.parametrize("kind", FAMILIES)
def test_samplers_agree_with_forward_passes(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    lm = TrainableLM(tiny.architecture(kind, len(WORDS), max_position_embeddings=2048), WORDS)
    found = [largest(lm, reuse_tokens, step) for step, reuse_tokens in enumerate((0, 65_536))]
    with capsys.disabled():
        (plain, tokens), (kept, again) = found
        print(f"\n{kind:12s} {plain:.0e} nats off, {kept:.0e} with kept prefixes", end="")
        print(f" ({tokens + again} tokens)", end="")
    assert min(tokens, again) > 40
    assert max(plain, kept) < NATS
