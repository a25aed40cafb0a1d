"""A policy without a generator gives what one with a generator gives, to the bit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from searchgym.core import Episode, EpisodeConfig, Rules, run_tools
from searchgym.corpora import Corpus
from searchgym.dialects import SEARCH_R1
from searchgym.engines import build_engine
from searchgym.errors import EngineError
from searchgym.llms import Completion, GenRequest, Sampling, TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy, ExternalPolicy, make_renderer
from searchgym.policies.renderer import ChatRenderer, PlainRenderer
from searchgym.tools import SearchTool, Toolbox
from searchgym.types import Passage, Task, TurnRequest
from tests.llms import tiny

WORDS = tiny.tokenizer()
PASSAGES = [Passage(f"p{i}", f"Place {i}", f"Place {i} is blue. " * 4, f"u{i}") for i in range(6)]
TASKS = [Task(f"t{i}", f"What is place {i}?", ("blue",), (f"p{i}",)) for i in range(6)]
SAMPLING = Sampling(max_tokens=12)


@cache
def writer() -> TransformersGenerator:
    model = tiny.model(vocabulary=len(WORDS), max_position_embeddings=4096)
    return TransformersGenerator(model, WORDS)


def episodes_and_toolbox(count: int) -> tuple[list[Episode], Toolbox]:
    corpus = Corpus("places", PASSAGES)
    tool = SearchTool(build_engine("bm25", corpus), 2, corpus)
    rules = Rules(tools=(tool.spec,), max_turns=4)
    episodes = [Episode(EpisodeConfig(t, rules, 1, f"e{i}")) for i, t in enumerate(TASKS[:count])]
    return episodes, Toolbox({"search": tool})


def play(policy: Any, write: Any) -> list[Any]:
    """Episodes to their ends, in lock step, by a loop of one's own."""
    episodes, toolbox = episodes_and_toolbox(6)
    while going := [e for e in episodes if e.phase != "done"]:
        requests = [r for e in going for r in e.requests()]
        for episode, text in zip(going, write(policy, requests), strict=True):
            episode.act(text)
        run_tools(going, toolbox)
    return episodes


def by_hand(generator: TransformersGenerator) -> Any:
    def write(policy: ExternalPolicy, requests: list[TurnRequest]) -> list[str]:
        asked = [policy.ask(request) for request in requests]
        written = iter(generator.run([a for a in asked if isinstance(a, GenRequest)]))
        done = [next(written) if isinstance(a, GenRequest) else a for a in asked]
        assert all(isinstance(d, Completion) for d in done)
        return [
            policy.remember(r, d).text  # type: ignore[arg-type]
            for r, d in zip(requests, done, strict=True)
        ]

    return write


@pytest.mark.parametrize(("renderer", "context"), [("plain", None), ("chat", 700)])
def test_rows_are_those_of_the_policy_with_a_generator(renderer: str, context: int | None) -> None:
    generator = writer()
    options: dict[str, Any] = {"sampling": SAMPLING, "seed": 3, "context": context or 4096}
    whole = CausalLMPolicy(generator, renderer, **options)
    alone = ExternalPolicy(WORDS, renderer, **options)
    one = play(whole, lambda policy, requests: policy.act(requests))
    two = play(alone, by_hand(generator))
    rows = 0
    for a, b in zip(one, two, strict=True):
        assert a.observation() == b.observation()
        assert whole.episode_usage(a.config.episode_id) == alone.episode_usage(b.config.episode_id)
        for x, y in zip(whole.rows(a), alone.rows(b), strict=True):
            rows += 1
            for name in ("ids", "sampled", "loss_mask", "logp", "version", "turn_of_token"):
                np.testing.assert_array_equal(getattr(x, name), getattr(y, name))
            assert x.turn_uids == y.turn_uids
    assert rows >= len(one)
    usage = [alone.episode_usage(e.config.episode_id) for e in two]
    assert sum(u["length_cut"] for u in usage) > 0
    assert (sum(u["overflowed"] for u in usage) > 0) == (context is not None)


def test_a_turn_is_rendered_once() -> None:
    calls = 0

    class Counting(PlainRenderer):
        def render(self, request: TurnRequest, written: Any) -> Any:
            nonlocal calls
            calls += 1
            return super().render(request, written)

    policy = CausalLMPolicy(writer(), Counting(WORDS), sampling=SAMPLING)
    episodes = play(policy, lambda policy, requests: policy.act(requests))
    assert calls == sum(len(e.turns) for e in episodes)


def test_renderers_by_table() -> None:
    made = make_renderer({"use": "chat", "unstable": "split", "system": False}, WORDS)
    assert isinstance(made, ChatRenderer)
    assert (made.unstable, made.system) == ("split", False)
    assert type(make_renderer("searchgym.policies.renderer:BareRenderer", WORDS)).__name__ == (
        "BareRenderer"
    )
    for spec, said in [
        ({"unstable": "split"}, "names its renderer"),
        ("chatt", "Did you mean 'chat'"),
        ({"use": "plain", "boss": True}, "boss"),
        ("searchgym.policies.renderer:Nothing", "cannot load"),
    ]:
        with pytest.raises(EngineError, match=said):
            make_renderer(spec, WORDS)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="no tokenizer for the renderer 'plain'"):
        ExternalPolicy(None)


def test_what_was_sampled_must_fit_the_tokenizer() -> None:
    policy = ExternalPolicy(WORDS, sampling=SAMPLING)
    episodes, _ = episodes_and_toolbox(1)
    (request,) = episodes[0].requests()
    asked = policy.ask(request)
    assert isinstance(asked, GenRequest)
    assert asked.needs == {"ids", "logp"}
    with pytest.raises(EngineError, match=r"gave token id 99999"):
        policy.remember(request, Completion("x", (99_999,), np.zeros(1, np.float32)))
    with pytest.raises(EngineError, match="no ids or logp"):
        policy.remember(request, Completion("x"))


def test_a_template_that_opens_a_thought_is_played_in_one_row() -> None:
    """As R1's distillations and Qwen3's thinking models have it, without any option."""
    words = tiny.tokenizer()
    words.chat_template = tiny.CHAT.replace("assistant\n{%", "assistant\n<think>\n{%")
    model = tiny.model(vocabulary=len(words), max_position_embeddings=4096)
    policy = CausalLMPolicy(TransformersGenerator(model, words), "chat", sampling=SAMPLING)
    for episode in play(policy, lambda policy, requests: policy.act(requests)):
        (row,) = policy.rows(episode)
        assert len(row.turn_uids) == len(episode.turns) > 1
        read = words.decode(row.ids.tolist())
        assert read.count("<|im_start|>assistant\n<think>\n") == len(episode.turns)


@pytest.mark.parametrize("renderer", ["chat", "plain"])
def test_a_published_prompt_reaches_a_model_to_the_last_byte(renderer: str) -> None:
    """Search-R1 applies the template to one message of the user's, or has none (its
    ``verl/utils/dataset/rl_dataset.py``)."""
    corpus = Corpus("places", PASSAGES)
    tool = SearchTool(build_engine("bm25", corpus), 2, corpus)
    rules = Rules(tools=(tool.spec,), instructions="search_r1")
    (request,) = Episode(EpisodeConfig(TASKS[0], rules, 1, "e")).requests()
    content = SEARCH_R1.replace("{question}", TASKS[0].question)
    text = content
    if renderer == "chat":
        text = WORDS.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
    asked = ExternalPolicy(WORDS, renderer).ask(request)
    assert isinstance(asked, GenRequest)
    assert WORDS.decode(asked.prompt) == text
    if renderer == "plain":  # the ids of the authors' own tokenisation
        assert list(asked.prompt) == WORDS(text, add_special_tokens=False)["input_ids"]
