"""Wrappers: a curriculum around an environment, and numbers for libraries that know no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction
from numpy.typing import NDArray

from .candidates.actions import DEFAULT_LIMITS, Candidate, CandidateLimits
from .candidates.encoder import WordEncoder
from .candidates.features import FEATURE_NAMES, FeatureBuilder
from .candidates.state import read_state
from .dialects.base import get_dialect
from .envs.curriculum import CurriculumWrapper, VectorCurriculumWrapper
from .envs.recorded import Recorded
from .envs.search import SearchEnv
from .errors import CardError, unknown

__all__ = ["CandidateActions", "CurriculumWrapper", "Observation", "VectorCurriculumWrapper"]

Observation = dict[str, NDArray[Any]]


class CandidateActions(Recorded):
    """Offers the legal candidate actions of each state as a discrete, masked action space.

    Action i stands for the i-th candidate: search the question, search a mention, answer a span,
    refuse, … (``candidates.actions``). Observation: ``features`` (max_actions, F) float32, a row
    per candidate, zero beyond them; ``mask`` (max_actions,) int8, 1 where a candidate stands.
    ``action_masks()`` is what Stable-Baselines3-contrib's MaskablePPO asks for. ``info`` gains
    ``candidates`` (their number) and ``text_observation``.

    ``gym.make(env.spec)`` makes an equal environment, wrapper included; with plain arguments the
    spec can be written as JSON.

    Args:
        env: A ``SearchEnv``, wrapped or not.
        encoder: Where the soft columns come from: a :class:`WordEncoder`, its arguments
            (``{"path": "folder"}``), or True for the bundled one. Without one the soft columns
            equal the lexical ones.
        max_actions: Rows; candidates beyond are dropped (refusing, always last, is kept).
        limits: How many candidates of each sort there are: ``CandidateLimits``, or those of its
            fields that differ from the defaults (``{"answers": 50}``).

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
    ) -> None:
        if not isinstance(env.unwrapped, SearchEnv):
            raise CardError(
                f"CandidateActions needs a SearchEnv, got {type(env.unwrapped).__name__}; make one "
                "with gym.make('SearchQA-v0')"
            )
        if max_actions < 1:
            raise CardError(f"max_actions must be at least 1, got {max_actions}")
        limits = limits if isinstance(limits, CandidateLimits) else _limits(limits)
        super().__init__(env, encoder=encoder, max_actions=max_actions, limits=asdict(limits))
        self.search_env: SearchEnv = env.unwrapped
        self.max_actions = max_actions
        self.builder = FeatureBuilder(_encoder(encoder), limits=limits, states=2_000)
        self.action_space = spaces.Discrete(max_actions)
        self.observation_space = spaces.Dict(
            {
                "features": spaces.Box(-1e4, 1e4, (max_actions, len(FEATURE_NAMES)), np.float32),
                "mask": spaces.MultiBinary(max_actions),
            }
        )
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
        index = int(action)
        if not 0 <= index < self.max_actions:
            raise InvalidAction(f"{index} is no action of {self.action_space}")
        text = ""
        if index < len(self.candidates):
            dialect = get_dialect(self.search_env.rules.dialect)
            text = dialect.render_action(self.candidates[index].action)
        observation, reward, terminated, truncated, info = self.env.step(text)
        features, info = self._observe(observation, info)
        return features, float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(max_actions,) bool: True where a candidate stands."""
        return np.arange(self.max_actions) < len(self.candidates)

    def _observe(self, text: str, info: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
        features = np.zeros((self.max_actions, len(FEATURE_NAMES)), dtype=np.float32)
        requests = self.search_env.requests()
        self.candidates = ()
        if requests:
            state = read_state(requests[0])
            offered, rows = self.builder(state)
            if len(offered) > self.max_actions:
                keep = [*range(self.max_actions - 1), len(offered) - 1]
                offered, rows = tuple(offered[i] for i in keep), rows[keep]
            self.candidates = offered
            features[: len(offered)] = rows
        observation: Observation = {
            "features": features,
            "mask": self.action_masks().astype(np.int8),
        }
        return observation, {
            **info, "candidates": len(self.candidates), "text_observation": text,
        }  # fmt: skip


def _limits(given: Mapping[str, int]) -> CandidateLimits:
    known = asdict(DEFAULT_LIMITS)
    for name in given:
        if name not in known:
            raise CardError(unknown("limit", name, known))
    return CandidateLimits(**given)


def _encoder(given: WordEncoder | Mapping[str, Any] | bool | None) -> WordEncoder | None:
    if isinstance(given, Mapping):
        return WordEncoder(**given)
    if isinstance(given, bool):
        return WordEncoder() if given else None
    return given
