"""Closed-loop evaluation: a model searches and answers in unseen worlds; scores are by hops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from searchgym.core.episode import Episode
from searchgym.core.rollout import run_episodes
from searchgym.envs.search import SearchEnv
from searchgym.evaluation.run import episode_for
from searchgym.llms.base import Sampling
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.types import Agent

from .slots import has_slots

OWN_TOKENS = 128
"""Largest number of tokens in a turn; few turns take more than forty."""


class ByHops(NamedTuple):
    """Exact match of the questions of one number of hops."""

    hops: int
    questions: int
    em: float
    searches: float
    """Number of searches per question."""


def reader_policy(model: Any, tokenizer: Any, *, temperature: float = 0.0) -> CausalLMPolicy:
    """Return the policy of a warm start's model and tokenizer; greedy by default."""
    return CausalLMPolicy(
        TransformersGenerator(model, tokenizer),
        renderer_of(tokenizer),
        sampling=Sampling(max_tokens=OWN_TOKENS, temperature=temperature),
    )


def renderer_of(tokenizer: Any) -> Literal["names", "bare"]:
    """Return the name of the renderer by which a warm start's model reads episodes."""
    return "names" if has_slots(tokenizer) else "bare"


def play(agent: Agent, made: SearchEnv, *, seed: int = 0, batch: int = 256) -> list[Episode]:
    """Play every task of an environment once, to its end."""
    return run_episodes(
        [episode_for(made, task, seed) for task in made.tasks], agent, made.toolbox, batch=batch
    )


def by_hops(episodes: Sequence[Episode]) -> list[ByHops]:
    """Measure the exact match by number of hops; an episode without an answer counts 0."""
    rows: list[ByHops] = []
    for hops in sorted({e.config.task.hops for e in episodes}):
        some = [e for e in episodes if e.config.task.hops == hops]
        right = sum(o.parts.get("em", 0.0) for e in some if (o := e.outcome()) is not None)
        searches = sum(e.queries for e in some)
        rows.append(ByHops(hops, len(some), right / len(some), searches / len(some)))
    return rows
