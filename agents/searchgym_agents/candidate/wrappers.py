"""Candidate actions for ordinary RL libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, SupportsInt

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from searchgym.agents.simple import read_state
from searchgym.dialects.base import Dialect, get_dialect
from searchgym.envs.search import SearchEnv
from searchgym.envs.vector import SearchVectorEnv
from searchgym.errors import CardError, unknown
from searchgym.types import TurnRequest
from searchgym.wrappers import Recorded

from .actions import DEFAULT_LIMITS, Candidate, CandidateLimits
from .encoder import WordEncoder
from .features import FEATURE_NAMES, FeatureBuilder

Observation = dict[str, NDArray[Any]]
LAYOUTS = {"rows": ("features", "mask"), "rllib": ("observations", "action_mask")}
"""Keys of the rows and of the mask, by layout."""


class Menu:
    """Turns requests into candidates, their rows and masks, and numbers into texts.

    Args:
        encoder, max_actions, limits, layout, states: as of :class:`CandidateActions`.

    Raises:
        CardError: an argument is out of range or unknown.
    """

    def __init__(
        self,
        encoder: WordEncoder | Mapping[str, Any] | bool | None,
        max_actions: int,
        limits: CandidateLimits | Mapping[str, int],
        layout: str,
        states: int,
    ) -> None:
        if max_actions < 1:
            raise CardError(f"max_actions must be at least 1, got {max_actions}")
        if states < 1:
            raise CardError(f"states must be at least 1, got {states}")
        if layout not in LAYOUTS:
            raise CardError(unknown("layout", layout, LAYOUTS))
        limits = limits if isinstance(limits, CandidateLimits) else _limits(limits)
        self.max_actions, self.limits, self.layout = max_actions, limits, layout
        self.builder = FeatureBuilder(_encoder(encoder), limits=limits, states=states)
        self.action_space = spaces.Discrete(max_actions)
        shape, rows, mask = (max_actions, len(FEATURE_NAMES)), *LAYOUTS[layout]
        of_mask: spaces.Space[Any] = spaces.MultiBinary(max_actions)
        if layout == "rllib":  # its networks read flat rows, and add the logarithm of the mask
            shape = (max_actions * len(FEATURE_NAMES),)  # type: ignore[assignment]
            of_mask = spaces.Box(0.0, 1.0, (max_actions,), np.float32)
        self.observation_space = spaces.Dict(
            {rows: spaces.Box(-1e4, 1e4, shape, np.float32), mask: of_mask}
        )

    def offer(
        self, requests: Sequence[TurnRequest | None]
    ) -> tuple[list[tuple[Candidate, ...]], Observation]:
        """The candidates of each request and the observations, stacked: (n, …) each.

        No request, as after an episode's end, offers nothing: zeros.
        """
        states = [None if r is None else read_state(r) for r in requests]
        self.builder.prepare([state for state in states if state is not None])
        n = len(requests)
        rows = np.zeros((n, self.max_actions, len(FEATURE_NAMES)), dtype=np.float32)
        offers: list[tuple[Candidate, ...]] = []
        for i, state in enumerate(states):
            offered: tuple[Candidate, ...] = ()
            if state is not None:
                offered, features = self.builder(state)
                if len(offered) > self.max_actions:  # refusing, always last, is kept
                    keep = [*range(self.max_actions - 1), len(offered) - 1]
                    offered, features = tuple(offered[k] for k in keep), features[keep]
                rows[i, : len(offered)] = features
            offers.append(offered)
        mask = self.mask(offers)
        names = LAYOUTS[self.layout]
        if self.layout == "rllib":
            return offers, {
                names[0]: rows.reshape(n, -1), names[1]: mask.astype(np.float32)
            }  # fmt: skip
        return offers, {names[0]: rows, names[1]: mask.astype(np.int8)}

    def mask(self, offers: Sequence[Sequence[Candidate]]) -> NDArray[np.bool_]:
        """(n, max_actions) bool: True where a candidate stands."""
        counts = np.asarray([len(offered) for offered in offers])
        return np.arange(self.max_actions) < counts[:, None]

    def text(
        self, offered: Sequence[Candidate], action: Any, dialect: str | Mapping[str, Any] | Dialect
    ) -> str:
        """The text of a candidate; "", which is no action, for a number that is masked.

        Raises:
            InvalidAction: the number is no element of ``action_space``.
        """
        index = int(action)
        if not 0 <= index < self.max_actions:
            raise InvalidAction(f"{index} is no action of {self.action_space}")
        if index >= len(offered):
            return ""
        return get_dialect(dialect).render_action(offered[index].action)


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
