"""Candidate actions for ordinary RL libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from searchgym.envs.recorded import Recorded
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError

from .actions import DEFAULT_LIMITS, Candidate, CandidateLimits
from .encoder import WordEncoder
from .menu import Menu, Observation


class CandidateActions(Recorded):
    """Offers the legal candidate actions of each state as a discrete, masked action space.

    Action i stands for the i-th candidate: search the question, search a mention, answer a span,
    refuse, … (``actions``). Observation: ``features`` (max_actions, F) float32, a row
    per candidate, zero beyond them; ``mask`` (max_actions,) int8, 1 where a candidate stands.
    ``action_masks()`` is what Stable-Baselines3-contrib's MaskablePPO asks for. ``info`` gains
    ``candidates`` (their number) and ``text_observation``.

    ``gym.make(env.spec)`` makes an equal environment, wrapper included; with plain arguments the
    spec can be written as JSON. Many at a time are several times as fast in
    :class:`VectorCandidateActions`.

    Args:
        env: A ``SearchEnv``, wrapped or not.
        encoder: Where the soft columns come from: a :class:`WordEncoder`, its arguments
            (``{"path": "folder"}``), or True for the bundled one. Without one the soft columns
            equal the lexical ones.
        max_actions: Rows; candidates beyond are dropped (refusing, always last, is kept).
        limits: How many candidates of each sort there are: ``CandidateLimits``, or those of its
            fields that differ from the defaults (``{"answers": 50}``).
        layout: ``"rows"``, as above; ``"rllib"``, as RLlib's masked modules ask: ``observations``
            (max_actions * F,) and ``action_mask`` (max_actions,), both float32.
        states: States whose rows are kept for when they come back; one takes about 50 kB.

    Raises:
        CardError: The environment is no ``SearchEnv``, or an argument is out of range.
    """

    instead = (
        "train the candidate agent (searchgym train candidate), or a library's agent in the "
        "wrapped environment itself"
    )
    """Advice that trainers and evaluation, which act by text, give when they get this wrapper."""

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        encoder: WordEncoder | Mapping[str, Any] | bool | None = None,
        max_actions: int = 200,
        limits: CandidateLimits | Mapping[str, int] = DEFAULT_LIMITS,
        layout: str = "rows",
        states: int = 2_000,
    ) -> None:
        if not isinstance(env.unwrapped, SearchEnv):
            raise CardError(
                f"CandidateActions needs a SearchEnv, got {type(env.unwrapped).__name__}; make one "
                "with gym.make('SearchQA-v0')"
            )
        self.menu = Menu(encoder, max_actions, limits, layout, states)
        super().__init__(
            env, encoder=encoder, max_actions=max_actions, limits=asdict(self.menu.limits),
            layout=layout, states=states,
        )  # fmt: skip
        self.search_env: SearchEnv = env.unwrapped
        self.max_actions, self.builder = max_actions, self.menu.builder
        self.action_space = self.menu.action_space
        self.observation_space = self.menu.observation_space
        self.candidates: tuple[Candidate, ...] = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        text, info = self.env.reset(seed=seed, options=options)
        return self._observe(text, info)

    def step(self, action: SupportsInt) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take candidate ``action``.

        A masked action is legal, as any text is: the episode answers that it was no action, and a
        turn is spent.

        Raises:
            InvalidAction: The action is no element of ``action_space``.
        """
        text = self.menu.text(self.candidates, action, self.search_env.rules.dialect)
        observation, reward, terminated, truncated, info = self.env.step(text)
        features, info = self._observe(observation, info)
        return features, float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(max_actions,) bool: True where a candidate stands."""
        return self.menu.mask([self.candidates])[0]

    def _observe(self, text: str, info: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
        requests = self.search_env.requests()
        (self.candidates,), stacked = self.menu.offer([requests[0] if requests else None])
        return {name: values[0] for name, values in stacked.items()}, {
            **info, "candidates": len(self.candidates), "text_observation": text,
        }  # fmt: skip
