"""Episodes as chats: in the environment, in its space, and in a template with tools."""

from __future__ import annotations

import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.vector.utils import batch_space

import searchgym
from searchgym.core.messages import messages_of, schemas, text_of
from searchgym.dialects import get_dialect
from searchgym.envs import ChatSpace
from searchgym.errors import CardError, EngineError
from searchgym.policies import ChatRenderer, ExternalPolicy
from tests.llms import tiny

SMALL: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}, "max_turns": 4}
CHAT: dict[str, Any] = {"observation": "messages", **SMALL}
NATIVE: dict[str, Any] = {"dialect": "json_tools+native", **CHAT}
CALL = (
    "<think>\nIt must be found.\n</think>\n\n<tool_call>\n"
    '{"name": "search", "arguments": {"query": "river"}}\n</tool_call>'
)
TEMPLATE = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% if tools %}<|im_start|>system\n{{ system }}\n\n# Tools\n{% for t in tools %}"
    "{{ t | tojson }}\n{% endfor %}<|im_end|>\n"
    "{% elif system %}<|im_start|>system\n{{ system }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n"
    "{{ m.content }}\n</tool_response><|im_end|>\n{% elif m.role != 'system' %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}\n<tool_call>\n"
    "{{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""In the form of Qwen2.5's and Hermes's: tools in the system message, results of the user's."""


def words() -> Any:
    made = tiny.tokenizer()
    made.chat_template = TEMPLATE
    return made


def test_a_chat_in_a_tag_dialect_is_texts() -> None:
    env = gym.make("SearchQA-v0", **CHAT).unwrapped
    chat, info = env.reset(seed=1)
    text = env.episode.observation()
    assert [m["role"] for m in chat["messages"]] == ["system", "user"]
    assert "".join(m["content"] for m in chat["messages"]) == text
    assert [t["function"]["name"] for t in chat["tools"]] == ["search"]
    said = "<think>x</think><search> river </search>"
    chat, *_, info = env.step(said)
    assert [m["role"] for m in chat["messages"]] == ["system", "user", "assistant", "user"]
    assert chat["messages"][2] == {"role": "assistant", "content": said}
    assert chat["messages"][3] == {"role": "user", "content": info["delta"]}
    assert env.observation_space.contains(chat)
    assert messages_of(env.requests()[0]) == messages_of(env.episode) == chat


def test_a_native_chat_has_calls_and_results() -> None:
    env = gym.make("SearchQA-v0", **NATIVE).unwrapped
    chat, _ = env.reset(seed=1)
    assert "tool_call" not in json.dumps(chat)
    assert "search" not in chat["messages"][0]["content"]
    chat, *_, info = env.step(CALL)
    *_, said, result = chat["messages"]
    assert said == {
        "role": "assistant",
        "content": "<think>\nIt must be found.\n</think>",
        "tool_calls": [
            {
                "id": "t000c0000", "type": "function",
                "function": {"name": "search", "arguments": {"query": "river"}},
            }
        ],
    }  # fmt: skip
    assert (result["role"], result["name"], result["tool_call_id"]) == (
        "tool", "search", "t000c0000",
    )  # fmt: skip
    assert "tool_response" not in result["content"]
    assert json.loads(result["content"])["query"] == "river"
    assert len(info["hits"]) == len(json.loads(result["content"])["results"])
    # a message with calls is the text that the environment reads
    again = gym.make("SearchQA-v0", **NATIVE).unwrapped
    again.reset(seed=1)
    repeated, *_ = again.step(text_of(said, get_dialect("json_tools+native")))
    assert repeated["messages"][-1] == result
    chat, *_ = env.step("nonsense")
    assert [m["role"] for m in chat["messages"][-2:]] == ["assistant", "user"]
    *_, terminated, _, _ = env.step("<answer>x</answer>")
    assert terminated


def test_parallel_calls_have_a_result_each() -> None:
    env = gym.make("SearchQA-v0", max_parallel=2, **NATIVE).unwrapped
    env.reset(seed=1)
    second = CALL.partition("\n\n")[2].replace("river", "city")
    chat, *_ = env.step(f"{CALL}\n{second}")
    *_, said, one, two = chat["messages"]
    assert [c["function"]["arguments"]["query"] for c in said["tool_calls"]] == ["river", "city"]
    assert [json.loads(m["content"])["query"] for m in (one, two)] == ["river", "city"]
    assert [m["tool_call_id"] for m in (one, two)] == [c["id"] for c in said["tool_calls"]]


def test_an_episode_without_search_offers_no_tools() -> None:
    env = gym.make("SearchQA-v0", search_enabled=False, **CHAT)
    chat, _ = env.reset(seed=1)
    assert chat["tools"] == []


@pytest.mark.parametrize("options", [CHAT, NATIVE])
def test_both_checks_pass(options: dict[str, Any]) -> None:
    env = gym.make("SearchQA-v0", **options)
    gymnasium_check(env.unwrapped, skip_render_check=True)
    searchgym.check_env(env)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    assert again.reset(seed=5)[0] == env.reset(seed=5)[0]
    assert pickle.loads(pickle.dumps(env.unwrapped)).reset(seed=5)[0] == env.reset(seed=5)[0]


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", "async"])
def test_vectors_give_the_same_chats(mode: str) -> None:
    extra = {"vector_kwargs": {"shared_memory": False}} if mode == "async" else {}
    vector = gym.make_vec("SearchQA-v0", 2, vectorization_mode=mode, **extra, **CHAT)
    chats, _ = vector.reset(seed=3)
    env = gym.make("SearchQA-v0", **CHAT)
    for i, chat in enumerate(chats):
        assert chat == env.reset(seed=3 + i)[0]
    chats, *_ = vector.step(["<search> river </search>"] * 2)
    assert vector.observation_space.contains(tuple(chats))
    assert chats[1] == env.step("<search> river </search>")[0]
    vector.close()


def test_same_step_autoreset_keeps_the_last_chat() -> None:
    vector = gym.make_vec(
        "SearchQA-v0", 2, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
        **CHAT,
    )  # fmt: skip
    vector.reset(seed=3)
    chats, _, ended, _, infos = vector.step(["<answer>x</answer>"] * 2)
    assert ended.all()
    assert infos["final_obs"][0]["messages"][-1]["content"] == "<answer>x</answer>"
    assert len(chats[0]["messages"]) == 2


def test_the_space_serialises_and_samples() -> None:
    space = ChatSpace(10_000, seed=1)
    samples = [space.sample() for _ in range(50)]
    assert all(space.contains(s) for s in samples)
    assert any(len(s["messages"]) > 2 for s in samples)
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples)))) == samples
    other = pickle.loads(pickle.dumps(space))
    assert (other, repr(other)) == (space, "ChatSpace(max_length=10000)")
    space.seed(4)
    other.seed(4)
    assert space.sample() == other.sample()
    assert batch_space(space, 2).contains((samples[0], samples[1]))
    good = {"messages": [{"role": "user", "content": "é"}], "tools": []}
    assert space.contains(good)
    for wrong in (
        "text", {"messages": []}, {**good, "tools": None}, {**good, "more": 1},
        {**good, "messages": [{"role": "boss", "content": ""}]},
        {**good, "messages": [{"role": "user", "content": None}]},
        {**good, "messages": [{"role": "user", "content": "x" * 10_001}]},
        {**good, "tools": [np.zeros(1)]},
    ):  # fmt: skip
        assert not space.contains(wrong)
    assert ChatSpace(5) != space


def test_a_wrong_kind_is_named() -> None:
    with pytest.raises(CardError, match="Did you mean 'messages'"):
        gym.make("SearchQA-v0", observation="message", **SMALL)


def test_the_renderer_gives_the_template_tools_and_results() -> None:
    """What the model reads is, token by token, what the template makes of the messages."""
    tokenizer = words()
    env = gym.make("SearchQA-v0", **NATIVE).unwrapped
    env.reset(seed=1)
    renderer = ChatRenderer(tokenizer, tools=True)
    (request,) = env.requests()
    first = [i for piece in renderer.render(request, {}) for i in piece]
    assert tokenizer.decode(first) == tokenizer.apply_chat_template(
        [{**m, "content": m["content"].strip()} for m in messages_of(request)["messages"]],
        tools=schemas(request.tools), tokenize=False, add_generation_prompt=True,
    )  # fmt: skip
    assert tokenizer.decode(first).count('"name": "search"') == 1
    chat, *_ = env.step(CALL)
    (request,) = env.requests()
    own = [s.id for s in request.segments if s.author == "policy"]
    written = dict.fromkeys(own, tuple(tokenizer(CALL)["input_ids"]))
    second = [i for piece in renderer.render(request, written) for i in piece]
    assert second[: len(first)] == first
    text = tokenizer.decode(second)
    assert text.count("<tool_response>\n{") == 1
    assert text.count(CALL) == 1
    assert text.endswith("</tool_response><|im_end|>\n<|im_start|>assistant\n")
    assert "<|im_start|>user\n<tool_response>\n" + chat["messages"][-1]["content"] in text


def test_tools_are_never_described_twice_or_lost() -> None:
    env = gym.make("SearchQA-v0", **SMALL).unwrapped
    env.reset(seed=1)
    (request,) = env.requests()
    with pytest.raises(EngineError, match=r"use dialect='json_tools\+native'"):
        ChatRenderer(words(), tools=True).render(request, {})
    env = gym.make("SearchQA-v0", **NATIVE).unwrapped
    env.reset(seed=1)
    (request,) = env.requests()
    deaf = tiny.tokenizer()
    with pytest.raises(EngineError, match="says nothing of the tools"):
        ChatRenderer(deaf, tools=True).render(request, {})
    policy = ExternalPolicy(words(), {"use": "chat", "tools": True})
    assert "# Tools" in words().decode(policy.ask(request).prompt)  # type: ignore[union-attr]
