"""A policy whose model stands behind a server: the same tokens as with the model at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from searchgym.core import Episode, EpisodeConfig, run_episodes
from searchgym.errors import CardError
from searchgym.llms import OpenAIGenerator, Sampling, TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.renderer import PlainRenderer
from searchgym.policies.trainable import TrainableLM
from searchgym.rl import Trainer
from tests.llms import tiny
from tests.llms.server import Server, running
from tests.rl.colours import TASKS, player, setting

SAMPLING = Sampling(max_tokens=9, temperature=1.0)


@pytest.fixture(scope="module")
def url() -> Any:
    with running(Server("full")) as found:
        yield found


def played(generator: Any) -> tuple[list[list[str]], list[Any]]:
    """Texts and rows of four episodes."""
    policy = CausalLMPolicy(generator, PlainRenderer(tiny.tokenizer()), sampling=SAMPLING, seed=3)
    rules = setting().rules
    episodes = [Episode(EpisodeConfig(task, rules, i, f"e{i}")) for i, task in enumerate(TASKS[:4])]
    run_episodes(episodes, policy, setting().toolbox)
    rows = [row for e in episodes for row in policy.rows(e)]
    return [[t.text for t in e.turns] for e in episodes], rows


def test_an_episode_is_the_same_through_a_server(url: str) -> None:
    words = tiny.tokenizer()
    here, own = played(TransformersGenerator(tiny.model("qwen2", len(words)), words))
    client = OpenAIGenerator(url, backoff_s=0.01)
    try:
        there, rows = played(client)
    finally:
        client.close()
    assert there == here
    assert any(len(texts) > 1 for texts in here)
    for a, b in zip(rows, own, strict=True):
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.loss_mask, b.loss_mask)
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)


def test_it_is_not_trained_and_says_so_before_it_plays(url: str) -> None:
    """Servers take no weights: what would be trained is not what plays."""
    lm: TrainableLM = player()[0]
    client = OpenAIGenerator(url, backoff_s=0.01)
    policy = CausalLMPolicy(client, PlainRenderer(lm.tokenizer), sampling=SAMPLING)
    try:
        with pytest.raises(CardError, match=r"OpenAIGenerator .* no update_weights.*lm\.policy"):
            Trainer(setting(), lm, "grpo", policy=policy)
    finally:
        client.close()
