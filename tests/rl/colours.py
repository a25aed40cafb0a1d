"""A world to learn in seconds: four things, all of them blue, and a language model of 20,000
parameters that already knows how to search and to answer, but answers with any of four colours."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch

from searchgym.core import Episode, EpisodeConfig
from searchgym.corpora import Corpus
from searchgym.envs import SearchEnv
from searchgym.llms import Sampling, SftConfig, train_tokenizer
from searchgym.policies import CausalLMPolicy, TrainableLM
from searchgym.types import Passage, Task
from tests.rl.tiny import llama, taught

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
def setting() -> SearchEnv:
    return SearchEnv(
        **{"corpus": CORPUS, "tasks": list(TASKS), "dialect": "plain", "k": 1, "max_turns": 2}
    )


def episode(task: Task, name: str = "e") -> Episode:
    return Episode(EpisodeConfig(task, setting().rules, 0, name))


def _pairs() -> list[tuple[str, str]]:
    """Search for the thing, then answer with any colour."""
    from searchgym.core import run_tools

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
def _blank() -> Any:
    return llama(tokenizer(), heads=2)


def blank() -> Any:
    """The model untrained; a copy, for making one takes many times as long."""
    return copy.deepcopy(_blank())


@cache
def _warm() -> dict[str, torch.Tensor]:
    config = SftConfig(steps=80, batch=8, lr=2e-2, muon_lr=0.0, prompt_weight=0.0)
    return taught(blank(), tokenizer(), _pairs(), config)


def player(seed: int = 0, **options: Any) -> tuple[TrainableLM, CausalLMPolicy]:
    """The warm model, ready to be trained, and the policy over it."""
    model = blank()
    model.load_state_dict(_warm())
    lm = TrainableLM(model, tokenizer(), **options)
    return lm, lm.policy("plain", sampling=SAMPLING, seed=seed)
