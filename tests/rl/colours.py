"""A world to learn in seconds: four things, all of them blue, and a language model of 20,000
parameters that already knows how to search and to answer, but answers with any of four colours."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from searchgym.corpora.corpus import Corpus
from searchgym.envs.setting import Setting
from searchgym.episode import Episode
from searchgym.llms.base import Sampling
from searchgym.llms.sft import SftConfig, SftTrainer, encode
from searchgym.llms.small import train_tokenizer
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.trainable import TrainableLM
from searchgym.rules import EpisodeConfig
from searchgym.types import Passage, Task

COLOURS = ("red", "blue", "green", "pink")
THINGS = ("Aldor", "Belu", "Cerdo", "Dimma")
CORPUS = Corpus(
    "colours", [Passage(f"p{i}", t, f"{t} is blue.", f"u{i}") for i, t in enumerate(THINGS)]
)
TASKS = tuple(
    Task(f"t{i}", f"{t}?", ("blue",), (f"p{i}",), (t,), "simple", 1) for i, t in enumerate(THINGS)
)
SAMPLING = Sampling(max_tokens=6, stop=("\n",))


@cache
def setting() -> Setting:
    return Setting(
        {"corpus": CORPUS, "tasks": list(TASKS), "dialect": "plain", "k": 1, "max_turns": 2}
    )


def episode(task: Task, name: str = "e") -> Episode:
    return Episode(EpisodeConfig(task, setting().rules, 0, name))


def _pairs() -> list[tuple[str, str]]:
    """Search for the thing, then answer with any colour."""
    from searchgym.drive import run_tools

    pairs = []
    for task, thing in zip(TASKS, THINGS, strict=True):
        e = episode(task)
        first = e.observation()
        e.act(f"search: {thing}")
        run_tools([e], setting().toolbox)
        for colour in COLOURS:
            pairs += [(first, f"search: {thing}"), (e.observation(), f"answer: {colour}")]
    return pairs


@cache
def tokenizer() -> Any:
    return train_tokenizer((p + c + "\n" for p, c in _pairs()), 420)


@cache
def _warm() -> dict[str, torch.Tensor]:
    model = blank()
    config = SftConfig(steps=80, batch=8, lr=2e-2, muon_lr=0.0, prompt_weight=0.0)
    trainer = SftTrainer(model, encode(tokenizer(), _pairs(), 500), config)
    for _ in range(config.steps):
        trainer.advance()
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def blank() -> Any:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer()), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512,
        initializer_range=0.1, bos_token_id=None, eos_token_id=0, pad_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config).eval()


def player(seed: int = 0, **options: Any) -> tuple[TrainableLM, CausalLMPolicy]:
    """The warm model, ready to be trained, and the policy over it."""
    model = blank()
    model.load_state_dict(_warm())
    lm = TrainableLM(model, tokenizer(), **options)
    return lm, lm.policy("plain", sampling=SAMPLING, seed=seed)
