"""Behaviour cloning: another agent's episodes as rows of the policy's tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...agents.oracle import OracleAgent
from ...core.episode import Episode
from ...core.rollout import run_episodes
from ...envs.search import SearchEnv
from ...errors import CardError, EngineError, unknown
from ...llms.base import Completion
from ...objects import load_known, load_object
from ...plugins import Registry
from ...policies.causal_lm import CausalLMPolicy
from ...policies.record import Written
from ...policies.renderer import Spelt
from ...types import Agent, Failure, TurnRequest
from ..slots.protocols import RolloutStrategy
from ..slots.records import Group, TaskPlan, Workers
from .chains import Chains, played, start


def oracle(env: SearchEnv) -> OracleAgent:
    """Return the oracle of an environment's tasks."""
    return OracleAgent(env.tasks)


EXPERTS = Registry("expert", {"oracle": oracle})


def expert_maker(name: str) -> Callable[[SearchEnv], Agent]:
    """Return what makes an expert of an environment, by its name or import path.

    Raises:
        CardError: no such expert.
    """
    if name not in EXPERTS and ":" not in name:
        raise CardError(unknown("expert", name, EXPERTS) + ", or 'package.module:Class'")
    maker: Callable[[SearchEnv], Agent] = (
        load_known(EXPERTS[name]) if name in EXPERTS else load_object(name)
    )
    return maker


class Demonstrations(RolloutStrategy):
    """``size`` episodes per task, played by an expert; each turn ends with the end token: the chat
    template's where the policy is prompted by it, else the tokenizer's.

    Sampling log-probabilities are 0 and the weights' version is -1: nothing was sampled. Losses
    that read them are refused. A text that does not fit into the model's context any more is
    dealt with as the policy's own (``CausalLMPolicy.overflow``): the turn is empty, or an error.

    Args:
        expert: An agent, or what makes one of the environment: a registered name (``"thinking"``
            says why it does what it does) or ``"package.module:Class"``. Default: the oracle of
            the setting's tasks.
        size: Episodes of a group; more than one only helps with an expert that varies.
    """

    registered = "demonstrations"
    unsampled = True

    def __init__(self, expert: Any = None, *, size: int = 1) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size = size
        self._maker = expert_maker(expert) if isinstance(expert, str) else None
        self._expert: Agent | None = None if self._maker else expert

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        return self.play(plans, workers, "")

    def play(self, plans: Sequence[TaskPlan], workers: Workers, prefix: str) -> list[Group]:
        """:meth:`collect`, with ``prefix`` before the number at the end of each episode's id."""
        if self._expert is None:
            made = workers.env
            self._expert = (self._maker or oracle)(made)
        writer = ExpertWriter(self._expert, workers.policy)
        groups: list[list[Episode]] = [
            [start(plan, workers, f"{prefix}{i}", i) for i in range(self.size)] for plan in plans
        ]
        everyone = [e for group in groups for e in group]
        run_episodes(everyone, writer, workers.env.toolbox, batch=max(len(everyone), 1))
        return [
            Group(plan, tuple(played(e, workers.policy) for e in group))
            for plan, group in zip(plans, groups, strict=True)
        ]


class ExpertWriter:
    """An agent whose texts the policy remembers as if it had written them."""

    def __init__(self, expert: Agent, policy: CausalLMPolicy) -> None:
        self.expert, self.policy = expert, policy

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        texts: list[str] = []
        for text in self.expert.act(requests):
            if isinstance(text, Failure):
                raise EngineError(f"{type(self.expert).__name__}: {text.kind}: {text.message}")
            texts.append(text)
        for place, (request, text) in enumerate(zip(requests, texts, strict=True)):
            policy = self.policy
            history = policy.memory.at(request)
            pieces = policy.renderer.render(request, history.ids(request))
            spell = partial(policy.renderer.spell, request.segments)
            prefill = spell(request.prefill).ids if request.prefill else ()
            read = sum(map(len, pieces)) + len(prefill)
            said = self._within(request, read, self._completion(text, spell(text)))
            texts[place] = said.text
            history.written[request.turn] = Written(
                request.turn, request.context, pieces, prefill, said
            )
        return texts

    def _within(self, request: TurnRequest, read: int, said: Completion) -> Completion:
        """Return the turn after ``read`` tokens, or an empty one if there is no room: half a text
        would teach to stop in the middle."""
        policy, wanted = self.policy, len(said.ids or ())
        if policy.context is None or read + wanted <= policy.context:
            return said
        if policy.overflow == "refuse":
            raise EngineError(
                f"turn {request.turn} of episode {request.episode_id!r}: {read} prompt tokens + "
                f"{wanted} of {type(self.expert).__name__}'s exceed the model's {policy.context}. "
                "Lower k, snippet_chars or max_turns, or use overflow='invalid'"
            )
        return Completion("", (), np.zeros(0, np.float32), (), -1, None, "length")

    def _completion(self, text: str, spelt: Spelt) -> Completion:
        ids = (*spelt.ids, _end_of(self.policy))
        logp = np.zeros(len(ids), np.float32)
        return Completion(text, ids, logp, (*spelt.ends, len(text)), -1)


def _end_of(policy: Any) -> int:
    """The token that ends a turn: the template's or the tokenizer's, and not whichever a model
    stops at besides."""
    end = getattr(policy.renderer, "end", None)
    if end is None:
        end = policy.generator.codec.tokenizer.eos_token_id
    return int(end) if end is not None else min(policy.generator.eos)


class WithExperts(Chains):
    """Chains, and ``experts`` episodes of an expert, which are marked as such (``Batch.expert``)
    and have no sampling log-probabilities.

    Estimators and losses see them unless told otherwise: ``{use = "among", members = "played"}``
    keeps them out of baselines or of a loss.

    Args:
        size: Episodes of the policy.
        expert: As in :class:`~searchgym.rl.rollouts.demonstrations.Demonstrations`; default: the
            oracle of the setting's tasks.
        experts: Episodes of the expert.
    """

    registered = "with_experts"
    adds = frozenset({"expert"})
    unsampled = True

    def __init__(self, size: int = 8, *, expert: Any = None, experts: int = 1) -> None:
        super().__init__(size)
        self.demonstrations = Demonstrations(expert, size=experts)

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        played = super().collect(plans, workers)
        shown = self.demonstrations.play(plans, workers, "expert-")
        return [
            replace(own, members=(*own.members, *(replace(m, purpose="expert") for m in theirs)))
            for own, theirs in zip(played, (g.members for g in shown), strict=True)
        ]
