"""The players of ``tests.rl.colours`` in architectures that vLLM serves, as folders to load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from searchgym.llms import Completion, GenRequest, SftConfig, SftTrainer, encode
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.rl import Chains, Group, TaskPlan, Workers, total
from searchgym.types import Failure
from tests.rl.colours import TASKS, _pairs, setting, tokenizer

SHAPE: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.1,
    "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0, "tie_word_embeddings": True,
}  # fmt: skip
"""Heads of 32, the fewest that vLLM's kernels take."""

RECIPE: dict[str, Any] = {
    "rollout": {"use": "chains", "size": 8},
    "advantage": "grpo",
    "loss": {"use": "ppo", "aggregate": "seq-mean-token-mean"},
}


def warm(folder: Path, kind: str = "qwen2") -> Path:
    """A model that searches, and answers with any of four colours."""
    import transformers

    shape = {**SHAPE, "vocab_size": len(tokenizer())}
    if kind == "lfm2":
        shape |= {
            "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"], "conv_L_cache": 4,
        }  # fmt: skip
    config = {"qwen2": transformers.Qwen2Config, "lfm2": transformers.Lfm2Config}[kind](**shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    options = SftConfig(steps=80, batch=8, lr=2e-2, muon_lr=0.0, prompt_weight=0.0)
    trainer = SftTrainer(model, encode(tokenizer(), _pairs(), 500), options)
    for _ in range(options.steps):
        trainer.advance()
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    path = folder / "tokenizer_config.json"  # transformers of other versions know this class, too
    settings = {**json.loads(path.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(settings))
    return folder


class Recorded:
    """A generator, and all that it said."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.said: list[tuple[GenRequest, Completion]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        found: list[Completion | Failure] = self.generator.run(batch)
        for request, completion in zip(batch, found, strict=True):
            assert isinstance(completion, Completion)
            self.said.append((request, completion))
        return found


def groups(policy: CausalLMPolicy, size: int = 6, name: str = "g") -> list[Group]:
    plans = [TaskPlan(task, f"{name}{i}", i) for i, task in enumerate(TASKS)]
    return Chains(size).collect(plans, Workers(policy, setting(), None))  # type: ignore[arg-type]


def require_exact(policy: CausalLMPolicy, recorded: Recorded) -> int:
    """What is trained is what was sampled, id by id, after what the generator was given; the number
    of tokens."""
    recorded.said.clear()
    rows = [row for g in groups(policy) for m in g.members for row in m.rows]
    asked = {(*(int(i) for i in r.prompt), *(c.ids or ())): c for r, c in recorded.said}  # type: ignore[union-attr]
    assert recorded.said
    count = 0
    for row in rows:
        for turn in range(len(row.turn_uids)):
            at = np.flatnonzero(row.turn_of_token == turn)
            completion = asked[tuple(row.ids[: at[-1] + 1].tolist())]
            assert tuple(row.ids[at].tolist()) == completion.ids
            np.testing.assert_array_equal(row.logp[at], completion.logp)
            assert (row.version[at] == completion.version).all()
            count += len(at)
    assert count == sum(len(c.ids or ()) for _, c in recorded.said)
    return count


def success(policy: CausalLMPolicy) -> float:
    """Share of right answers."""
    members = [m for g in groups(policy, 10, "success") for m in g.members]
    return sum(map(total, members)) / len(members)
