"""Wrappers around an environment: a curriculum, for trainers that only know environments, and the
base of wrappers that remember their arguments, so that ``gym.make(env.spec)`` makes them again.
Candidate actions are another: ``sg.CandidateActions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorWrapper
from gymnasium.vector.sync_vector_env import SyncVectorEnv

from ..curricula import Curriculum, make_curriculum
from ..envs.search import SearchEnv
from ..envs.vector import SearchVectorEnv
from ..errors import CardError

if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Any, Any, Any]
else:
    _VectorWrapper = VectorWrapper  # generic since gymnasium 1.4


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


class CurriculumWrapper(Recorded):
    """Gives the ``SearchEnv`` inside ``env`` a curriculum in place of its own.

    The trainer need not know: the curriculum acts at every reset, with or without options, and
    observes every episode's end. ``info["params"]`` says what each episode was played with.
    ``reset(options={"difficulty": …})`` and ``params`` still override it. One object around several
    environments of a process is one curriculum that sees them all; processes have one each.

    Args:
        curriculum: Spec for ``make_curriculum``: ``{"use": "staged", …}`` or an object.

    Raises:
        CardError: there is no ``SearchEnv`` inside, or the curriculum is none.
    """

    def __init__(self, env: gym.Env[Any, Any], curriculum: Any) -> None:
        if not isinstance(env.unwrapped, SearchEnv):
            raise CardError(
                f"CurriculumWrapper needs a SearchEnv, got {type(env.unwrapped).__name__}; make "
                "one with gym.make('SearchQA-v0')"
            )
        super().__init__(env, curriculum=curriculum)
        self.curriculum: Curriculum = make_curriculum(curriculum)
        env.unwrapped.curriculum = self.curriculum

    def state_dict(self) -> dict[str, Any]:
        """The curriculum's state, for a checkpoint; JSON values."""
        return self.curriculum.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.curriculum.load_state_dict(state)


class VectorCurriculumWrapper(_VectorWrapper):
    """Vector form of :class:`CurriculumWrapper`: one curriculum for all slots, in
    every autoreset mode.

    Raises:
        CardError: ``env`` is neither a ``SearchVectorEnv`` nor a ``SyncVectorEnv`` of search
            environments (an ``AsyncVectorEnv``'s live in processes of their own: wrap each).
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], curriculum: Any) -> None:
        inner: Any = env.unwrapped
        slots: list[Any] = [inner]
        if isinstance(inner, SyncVectorEnv):
            slots = [slot.unwrapped for slot in inner.envs]
        if not all(isinstance(slot, SearchEnv | SearchVectorEnv) for slot in slots):
            raise CardError(
                f"VectorCurriculumWrapper needs a SearchVectorEnv, got {type(inner).__name__}; "
                "make one with gym.make_vec('SearchQA-v0', 8)"
            )
        super().__init__(env)
        self.curriculum: Curriculum = make_curriculum(curriculum)
        for slot in slots:
            slot.curriculum = self.curriculum

    def state_dict(self) -> dict[str, Any]:
        """The curriculum's state, for a checkpoint; JSON values."""
        return self.curriculum.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.curriculum.load_state_dict(state)
