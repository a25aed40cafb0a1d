"""The ``SearchEnv`` within what a person passes: an id, a spec, an environment with its wrappers.

Trainers, evaluation and transfer play many episodes at a time: they begin the environment's
episodes and run their tools in batches. The effect of wrappers that Gymnasium's users meet first is
carried over to that; an environment with others is played through its ``step``, which is slower.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium import logger, wrappers
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
overrides them acts by ``step``."""
_OWN = ("step", "reset")


def search_env(env: Any, *, stepped: bool = False) -> SearchEnv:
    """Return the ``SearchEnv`` that ``env`` means, with the effects of its wrappers.

    Args:
        env: An environment made by ``gym.make``, wrapped or not; an id such as ``"SearchQA-v0"`` or
            ``"my_pkg:MyQA-v0"``; or Gymnasium's ``EnvSpec``.
        stepped: True if it may be one whose episodes are played through ``step``
            (:mod:`searchgym.envs.stepping`), because a wrapper or the class itself acts there.

    Raises:
        CardError: it is no ``SearchEnv``, it acts in ``step`` or ``reset`` without ``stepped``, or
            its actions are no texts.
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
    if not stepped:
        require_hooks(inner)
    own = [f"{type(inner).__name__}.{name}" for name in _overridden(inner)]
    acting = [type(layer).__name__ for layer in layers if _acts(layer)]
    if _hides_rewards(layers):
        acting.append("RecordEpisodeStatistics within a RewardWrapper")
    if own or acting:
        names = ", ".join(own + acting)
        if not stepped:
            raise CardError(
                f"{names}: acts in step and reset, which nothing calls here, so it would have no "
                "effect; step the environment itself, pass it to evaluate or a Trainer, which do, "
                "or give the effect by keywords (reward=, tools=, dialect=, instructions=, …)"
            )
        if not env.action_space.contains("a"):
            how = [layer.instead for layer in layers if hasattr(type(layer), "instead")]
            instead = f": {how[0]}" if how else ""
            raise CardError(
                f"{names}: actions are of {env.action_space}, and agents write texts; pass the "
                f"environment without it{instead}"
            )
        from .stepping import SteppedEnv

        logger.warn(
            f"{names}: acts in step and reset, so episodes are played through env.step, one search "
            "at a time, on copies of the environment; that is slower"
        )
        played: SearchEnv = SteppedEnv.of(env, layers, inner)
    else:
        played = inner.copy()
    for layer in reversed(layers):
        _carry_over(layer, played, stepped=bool(own or acting))
    return played


def require_hooks(env: SearchEnv) -> None:
    """Refuse a subclass that overrides ``step``, ``reset`` or ``begin``.

    Raises:
        CardError: naming what it overrides and the hooks to override instead.
    """
    for name in _overridden(env):
        raise CardError(
            f"{type(env).__name__} overrides {name}, which is not called here: override the hooks "
            "start(…) and reward(…), or play it in gymnasium.vector.SyncVectorEnv, by evaluate or "
            "by a Trainer, which step it"
        )


def _overridden(env: SearchEnv) -> list[str]:
    names = (*_OWN, "begin")
    return [name for name in names if getattr(type(env), name) is not getattr(SearchEnv, name)]


def _acts(layer: Any) -> bool:
    """Check whether a wrapper has a ``step`` or ``reset`` whose effect cannot be carried over."""
    base: Any = next(base for base in HANDLED if isinstance(layer, base))
    return any(getattr(type(layer), name) is not getattr(base, name) for name in _OWN)


def _hides_rewards(layers: list[Any]) -> bool:
    """Check whether statistics are recorded of rewards that a wrapper further out changes."""
    kinds = (gym.RewardWrapper, wrappers.RecordEpisodeStatistics)
    order = [isinstance(layer, gym.RewardWrapper) for layer in layers if isinstance(layer, kinds)]
    return order != sorted(order)


def _made(env: str | EnvSpec) -> gym.Env[Any, Any]:
    if isinstance(env, str):
        from .registration import env_id

        env = env_id(env)
    try:
        return gym.make(env)
    except (TypeError, ValueError) as error:
        raise CardError(f"cannot make {env}: {error}") from error


def _carry_over(layer: Any, env: SearchEnv, *, stepped: bool) -> None:
    """Give ``env`` the effect of one wrapper, as far as ``step`` does not have it."""
    if isinstance(layer, wrappers.TimeLimit):
        limits = [env.time_limit, layer._max_episode_steps]
        env.time_limit = min(limit for limit in limits if limit is not None)
    elif isinstance(layer, wrappers.RecordEpisodeStatistics):
        env.on_end = (*env.on_end, partial(_count if stepped else _record, layer))
    elif isinstance(layer, gym.RewardWrapper) and not stepped:
        # a record of an episode tells transforms apart by the function's name
        named: Any = layer
        plain = type(layer).reward is wrappers.TransformReward.reward
        transform: Any = named.func if plain else named.reward
        env.reward_transforms = (*env.reward_transforms, transform)


def _count(layer: Any, episode: Episode) -> None:
    layer.episode_count += 1


def _record(layer: Any, episode: Episode) -> None:
    """Enter an episode's return and length into a ``RecordEpisodeStatistics``; not its time, since
    episodes are played many at once."""
    layer.return_queue.append(sum(turn.reward for turn in episode.turns))
    layer.length_queue.append(len(episode.turns))
    layer.episode_count += 1
