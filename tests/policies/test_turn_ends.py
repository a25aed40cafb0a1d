"""Every renderer ends a turn as the model's template does, in demonstrations and in samples: once,
and with nothing else.

Templates have the forms of SmolLM2's and Qwen2.5's: a system message of their own, tools, results
within a user's message. Their tokenizers end texts with ``<|im_end|>``, or as before chats were
taught.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym.llms import GenRequest, Sampling, text_ends
from searchgym.policies import TrainableLM
from searchgym.policies.causal_lm import RENDERERS
from searchgym.rl import Demonstrations, TaskPlan, Workers
from searchgym_agents.reader.slots import slots
from tests.llms import tiny

SMOLLM = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\n"
    "I am small.<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN = (
    "{% set own = messages[0].role == 'system' %}<|im_start|>system\n"
    "{{ messages[0].content if own else 'I am Q.' }}"
    "{% if tools %}\n# Tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
    "<|im_end|>\n{% for m in messages %}{% if m.role == 'tool' %}"
    "{% if messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{% elif not (loop.first and own) %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"smollm": SMOLLM, "qwen": QWEN}
TOOLS = {"use": "chat", "tools": True}
PROMPTS: list[Any] = [
    *RENDERERS, {"use": "chat", "instructions": False}, {"use": "chat", "system": False},
    {"use": "chat", "unstable": "split"}, TOOLS,
]  # fmt: skip
CASES = [
    (name, eos, prompt)
    for name, eos, prompt in product(TEMPLATES, (tiny.MARK, tiny.END), PROMPTS)
    if prompt is not TOOLS or name == "qwen"
]


def made(name: str, eos: str) -> TrainableLM:
    words = tiny.tokenizer()
    words.chat_template, words.eos_token = TEMPLATES[name], eos
    words.add_tokens(list(slots()))  # of the renderer "names"
    return TrainableLM(tiny.model("qwen2", len(words), max_position_embeddings=8192), words)


@pytest.mark.parametrize(("name", "eos", "prompt"), CASES)
def test_a_demonstrated_turn_ends_as_a_sampled_one(name: str, eos: str, prompt: Any) -> None:
    chat = not isinstance(prompt, str) or prompt == "chat"
    lm = made(name, eos)
    end, other = tiny.MARK if chat else eos, {tiny.END, tiny.MARK}
    other -= {tiny.MARK} if chat else {eos}
    env = SearchEnv(
        corpus="encyclopedia", world={"entities": 300, "seed": 3}, tasks={"chain-2": 2}, k=1,
        max_turns=4, dialect="json_tools+native" if prompt is TOOLS else "search_r1",
    )  # fmt: skip
    policy = lm.policy(prompt, context=8192)
    code = lm.tokenizer.convert_tokens_to_ids(end)
    assert {code} <= policy.generator.eos
    plans = [TaskPlan(task, f"{i}.0", i) for i, task in enumerate(env.tasks)]
    for group in Demonstrations().collect(plans, Workers(policy, env, lm)):
        (member,) = group.members
        turns = 0
        for row in member.rows:
            own = np.flatnonzero(row.sampled)
            last = own[np.append(np.diff(own) > 1, True)]  # of each run of its own tokens
            assert {int(i) for i in row.ids[last]} == {code}
            turns += int((row.ids[own] == code).sum())
            text = lm.tokenizer.decode(row.ids)
            assert not any(mark in lm.tokenizer.decode(row.ids[own]) for mark in other)
            if chat:
                follows = text.split(tiny.MARK)[1:]
                assert all(after.startswith("\n<|im_start|>") or not after for after in follows)
        assert turns == len(member.episode.turns) > 1


@pytest.mark.parametrize(("name", "eos"), list(product(TEMPLATES, (tiny.MARK, tiny.END))))
def test_samplers_and_adapters_know_both_ends(name: str, eos: str) -> None:
    lm = made(name, eos)
    both = set(lm.tokenizer.convert_tokens_to_ids([tiny.MARK, eos]))
    assert both == set(text_ends(lm.tokenizer)) <= lm.policy("chat").generator.eos
    prompt = tuple(lm.tokenizer(f"a {tiny.USER}")["input_ids"])
    asked = GenRequest(prompt, Sampling(max_tokens=400))
    said = lm.policy("chat").generator.run([asked])[0]
    assert (said.finish == "eos") == (said.ids[-1] in both)
    assert not both & set(said.ids[:-1])
    assert tiny.MARK not in said.text
