"""Wrappers that remember their arguments, so that ``gym.make(env.spec)`` makes them again."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs

from ..errors import CardError


class _Spec(EnvSpec):
    """A spec that says what to pass where it cannot be written as JSON."""

    def to_json(self) -> str:
        try:
            return super().to_json()
        except TypeError as error:
            raise CardError(
                f"this spec holds an object and cannot be written as JSON ({error}); give the "
                "environment and its wrappers names, import paths ('package.module:Object') or "
                "tables such as {'use': 'staged', …}"
            ) from error


class Recorded(RecordConstructorArgs, gym.Wrapper[Any, Any, Any, Any]):
    """Base of wrappers that record their arguments.

    Objects among the arguments are recorded as they are, not copied: an encoder holds a model, and
    a curriculum may be shared by several environments.
    """

    def __init__(self, env: gym.Env[Any, Any], **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments)
        gym.Wrapper.__init__(self, env)

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The environment's spec with this wrapper; ``CardError`` from its ``to_json`` where an
        argument is an object."""
        spec = super().spec
        if spec is not None:
            spec.__class__ = _Spec
        return spec
