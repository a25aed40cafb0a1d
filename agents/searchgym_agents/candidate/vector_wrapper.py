"""Candidate actions of many episodes at once: one search batch and one cache for all slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from searchgym.envs.vector import SearchVectorEnv
from searchgym.errors import CardError

from .actions import DEFAULT_LIMITS, Candidate, CandidateLimits
from .encoder import WordEncoder
from .menu import Menu, Observation

if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Any, Any, Any]
else:
    _VectorWrapper = VectorWrapper  # generic since gymnasium 1.4

Arrays = tuple[
    Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class VectorCandidateActions(_VectorWrapper):
    """Vector form of :class:`CandidateActions`, with the same results in every slot.

    ``gym.make_vec("SearchQA-v0", 64)`` makes what it wraps. All of Gymnasium's autoreset modes
    work; a slot that is over, and ``final_obs``, offer nothing: zeros.

    Args:
        env: A ``SearchVectorEnv``, wrapped or not.
        encoder, max_actions, limits, layout: As of ``CandidateActions``.
        states: States whose rows are kept, for all slots together; one takes about 50 kB. Training
            comes back to the same states, and what is kept costs a tenth of what is built.

    Raises:
        CardError: The environment is no ``SearchVectorEnv``, or an argument is out of range.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        *,
        encoder: WordEncoder | Mapping[str, Any] | bool | None = None,
        max_actions: int = 200,
        limits: CandidateLimits | Mapping[str, int] = DEFAULT_LIMITS,
        layout: str = "rows",
        states: int = 10_000,
    ) -> None:
        if not isinstance(env.unwrapped, SearchVectorEnv):
            raise CardError(
                f"VectorCandidateActions needs a SearchVectorEnv, got "
                f"{type(env.unwrapped).__name__}; make one with gym.make_vec('SearchQA-v0', 64)"
            )
        super().__init__(env)
        self.search_envs: SearchVectorEnv = env.unwrapped
        self.menu = Menu(encoder, max_actions, limits, layout, states)
        self.single_action_space = self.menu.action_space
        self.single_observation_space = self.menu.observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.candidates: Sequence[tuple[Candidate, ...]] = [()] * self.num_envs
        nothing = self.menu.offer([None])[1]
        self._over = {name: values[0] for name, values in nothing.items()}
        for values in self._over.values():
            values.flags.writeable = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        texts, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        return self._observe(texts, infos)

    def step(self, actions: Sequence[Any] | NDArray[Any]) -> Arrays:
        """Take a candidate in every slot; those of slots that are being reset are ignored.

        Raises:
            InvalidAction: An action is no element of ``single_action_space``.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} actions, got {len(actions)}")
        dialect = self.search_envs.env.rules.dialect
        texts = [
            self.menu.text(offered, action, dialect)
            for offered, action in zip(self.candidates, actions, strict=True)
        ]
        observations, rewards, terminated, truncated, infos = self.env.step(texts)
        rows, infos = self._observe(observations, infos)
        return rows, rewards, terminated, truncated, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """(num_envs, max_actions) bool: True where a candidate stands."""
        return self.menu.mask(self.candidates)

    def _observe(
        self, texts: Sequence[Any], infos: dict[str, Any]
    ) -> tuple[Observation, dict[str, Any]]:
        requests = [episode.requests() for episode in self.search_envs.episodes]
        self.candidates, rows = self.menu.offer([r[0] if r else None for r in requests])
        every = np.ones(self.num_envs, dtype=np.bool_)
        shown = np.empty(self.num_envs, dtype=object)
        shown[:] = list(texts)
        counts = np.asarray([len(offered) for offered in self.candidates])
        infos = {
            **infos, "candidates": counts, "_candidates": every, "text_observation": shown,
            "_text_observation": every,
        }  # fmt: skip
        if "final_obs" in infos:
            last = np.empty(self.num_envs, dtype=object)
            for i in np.flatnonzero(infos["_final_obs"]):
                last[i] = self._over
            infos["final_obs"] = last
        return rows, infos
