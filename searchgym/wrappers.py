"""Wrappers: a curriculum around an environment, and numbers for libraries that know no text."""

from __future__ import annotations

from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .candidates.actions import DEFAULT_LIMITS, Candidate, Limits
from .candidates.features import FEATURE_NAMES, FeatureBuilder
from .candidates.state import read_state
from .dialects.base import get_dialect
from .envs.curriculum import CurriculumWrapper, VectorCurriculumWrapper
from .envs.search import SearchEnv
from .errors import CardError

__all__ = ["CandidateActions", "CurriculumWrapper", "Observation", "VectorCurriculumWrapper"]

Observation = dict[str, NDArray[Any]]


class CandidateActions(gym.Wrapper[Any, Any, Any, Any]):
    """A discrete, masked action space over the legal candidate actions of each state.

    Action i stands for the i-th candidate: search the question, search a mention, answer a span,
    refuse, … (``candidates.actions``). Observation: ``features`` (max_actions, F) float32, a row
    per candidate, zero beyond them; ``mask`` (max_actions,) int8, 1 where a candidate stands.
    ``action_masks()`` is what Stable-Baselines3-contrib's MaskablePPO asks for. ``info`` gains
    ``candidates`` (their number) and ``text_observation``.

    Args:
        env: a ``SearchEnv``, wrapped or not.
        encoder: a ``WordEncoder`` for the soft columns; without one they equal the lexical ones.
        max_actions: rows; candidates beyond are dropped (refusing, always last, is kept).

    Raises:
        CardError: the environment is no ``SearchEnv``.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        encoder: Any = None,
        max_actions: int = 200,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if not isinstance(env.unwrapped, SearchEnv):
            raise CardError(
                f"CandidateActions needs a SearchEnv, got {type(env.unwrapped).__name__}; make one "
                "with gym.make('SearchQA-v0')"
            )
        super().__init__(env)
        self.search_env: SearchEnv = env.unwrapped
        self.max_actions = max_actions
        self.builder = FeatureBuilder(encoder, limits=limits, states=2_000)
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
        """Take candidate ``action``; one that is masked out is an invalid action to the episode."""
        index = int(action)
        text = ""
        if 0 <= index < len(self.candidates):
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
            self.builder.prepare([state])
            found, rows = self.builder(state)
            if len(found) > self.max_actions:
                keep = [*range(self.max_actions - 1), len(found) - 1]
                found, rows = tuple(found[i] for i in keep), rows[keep]
            self.candidates = found
            features[: len(found)] = rows
        observation: Observation = {
            "features": features,
            "mask": self.action_masks().astype(np.int8),
        }
        return observation, {
            **info, "candidates": len(self.candidates), "text_observation": text,
        }  # fmt: skip
