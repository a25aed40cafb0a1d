"""The ``SearchEnv`` within what a person passes: an id, a spec, an environment with its wrappers.

Trainers, evaluation and transfer play many episodes at a time, so they do not step an environment:
they begin its episodes and run its tools. Wrappers whose effect can be carried over are; others are
refused by name, with what to pass instead, because nothing may be dropped in silence.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec

from ..core.episode import Episode
from ..errors import CardError
from .search import SearchEnv

TRANSPARENT = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker, wrappers.Autoreset)
"""Wrappers that watch over the calls of ``step`` and ``reset`` and change no episode."""
HANDLED = (
    *TRANSPARENT, wrappers.TimeLimit, wrappers.RecordEpisodeStatistics, gym.RewardWrapper,
    gym.Wrapper,
)  # fmt: skip
"""Wrappers whose own ``step`` and ``reset`` are carried over or change nothing; a subclass that
overrides them is refused."""
INSTEAD = {
    gym.ObservationWrapper: "instructions=… or dialect=… change what agents read",
    gym.ActionWrapper: "dialect=… changes how agents' texts are read",
}
_OWN = ("step", "reset")


def search_env(env: Any) -> SearchEnv:
    """Return the ``SearchEnv`` that ``env`` means, with the effects of its wrappers.

    Args:
        env: An environment made by ``gym.make``, wrapped or not; an id such as ``"SearchQA-v0"`` or
            ``"my_pkg:MyQA-v0"``; or Gymnasium's ``EnvSpec``.

    Raises:
        CardError: it is no ``SearchEnv``, it has a wrapper whose effect cannot be carried over, or
            its class overrides ``step`` or ``reset``.
    """
    if isinstance(env, (str, EnvSpec)):
        env = _made(env)
    layers: list[Any] = []
    inner = env
    while isinstance(inner, gym.Wrapper):
        layers.append(inner)
        inner = inner.env
    if not isinstance(inner, SearchEnv):
        raise CardError(
            "this needs a SearchEnv, its id or a Gymnasium spec of one, got "
            f"{type(env).__name__}; make one with gym.make('SearchQA-v0')"
        )
    require_hooks(inner)
    played = inner.copy()
    for layer in reversed(layers):
        _carry_over(layer, played)
    return played


def require_hooks(env: SearchEnv) -> None:
    """Refuse a subclass that overrides ``step``, ``reset`` or ``begin``.

    Raises:
        CardError: naming what it overrides and the hooks to override instead.
    """
    for name in (*_OWN, "begin"):
        if getattr(type(env), name) is not getattr(SearchEnv, name):
            raise CardError(
                f"{type(env).__name__} overrides {name}, which vector environments, trainers and "
                "evaluation do not call: override the hooks start(…) and reward(…), which all of "
                "them call"
            )


def _made(env: str | EnvSpec) -> gym.Env[Any, Any]:
    if isinstance(env, str):
        from .registration import env_id

        env = env_id(env)
    try:
        return gym.make(env)
    except (TypeError, ValueError) as error:
        raise CardError(f"cannot make {env}: {error}") from error


def _carry_over(layer: Any, env: SearchEnv) -> None:
    """Give ``env`` the effect of one wrapper."""
    kind = type(layer)
    base: Any = next(base for base in HANDLED if isinstance(layer, base))
    if any(getattr(kind, name) is not getattr(base, name) for name in _OWN):
        told = getattr(layer, "instead", None) or next(
            (text for base, text in INSTEAD.items() if isinstance(layer, base)),
            "give its effect by keywords (reward=, tools=, curriculum=, …) or by a subclass of "
            "SearchEnv",
        )
        raise CardError(
            f"{kind.__name__} acts in step and reset, which trainers and evaluation do not call, "
            f"so it would have no effect; pass the environment without it: {told}"
        )
    if isinstance(layer, wrappers.TimeLimit):
        limits = [env.time_limit, layer._max_episode_steps]
        env.time_limit = min(limit for limit in limits if limit is not None)
    elif isinstance(layer, wrappers.RecordEpisodeStatistics):
        env.on_end = (*env.on_end, partial(_record, layer))
    elif isinstance(layer, gym.RewardWrapper):
        if any(getattr(hook, "func", None) is _record for hook in env.on_end):
            raise CardError(
                f"{kind.__name__} stands outside RecordEpisodeStatistics, which would record the "
                "rewards before it, and episodes keep those after it: wrap the other way round"
            )
        # a record of an episode tells transforms apart by the function's name
        named: Any = layer
        plain = kind.reward is wrappers.TransformReward.reward
        transform: Any = named.func if plain else named.reward
        env.reward_transforms = (*env.reward_transforms, transform)


def _record(layer: Any, episode: Episode) -> None:
    """Enter an episode's return and length into a ``RecordEpisodeStatistics``; not its time, since
    episodes are played many at once."""
    layer.return_queue.append(sum(turn.reward for turn in episode.turns))
    layer.length_queue.append(len(episode.turns))
    layer.episode_count += 1
