"""Search environments for Stable-Baselines3, such as for MaskablePPO of Stable-Baselines3-contrib.

::

    from sb3_contrib import MaskablePPO
    from searchgym.integrations import sb3

    envs = sb3.vec_env("SearchQA-v0", 32, max_actions=64)
    model = MaskablePPO("MultiInputPolicy", envs, gamma=1.0)
    model.learn(100_000)

An action is the number of a candidate (``searchgym.CandidateActions``), and all slots share one
search batch and one cache of states (``searchgym.VectorCandidateActions``), so that steps are
several times as fast as in a ``DummyVecEnv`` of single environments.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ..envs.unwrap import search_env
from ..envs.vector import SearchVectorEnv
from ..errors import CardError
from ..objects import load_known
from ..plugins import public_names

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as missing:
    raise ImportError("searchgym.integrations.sb3 needs: pip install sb3-contrib") from missing


class SearchVecEnv(VecEnv):
    """``VectorCandidateActions`` behind Stable-Baselines3's interface.

    The ``info`` of an episode's last step has ``terminal_observation``, ``TimeLimit.truncated``
    and ``episode`` (``r`` its return, ``l`` its turns, ``t`` seconds since the start), as
    Stable-Baselines3's ``Monitor`` writes it; of every step, ``task_id`` and ``candidates``.

    Raises:
        CardError: the environment does not reset in the same step, as Stable-Baselines3 asks.
    """

    def __init__(self, envs: Any) -> None:
        if envs.search_envs.autoreset_mode != AutoresetMode.SAME_STEP:
            raise CardError(
                f"Stable-Baselines3 resets in the same step, and these environments by "
                f"{envs.search_envs.autoreset_mode.name}: make them with "
                "gym.make_vec(…, autoreset_mode='SameStep')"
            )
        self.envs = envs
        self._actions: np.ndarray | None = None
        self._began = time.monotonic()
        self._returns = np.zeros(envs.num_envs)
        self._turns = np.zeros(envs.num_envs, dtype=np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        options = {
            name: [each.get(name) for each in self._options]
            for name in dict.fromkeys(name for each in self._options for name in each)
        }
        observation, infos = self.envs.reset(seed=self._seeds, options=options)
        self._reset_seeds()
        self._reset_options()
        self._returns[:], self._turns[:] = 0, 0
        self.reset_infos = [{"task_id": task} for task in infos["task_id"]]
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        assert self._actions is not None, "step_wait() before step_async()"
        observation, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        self._returns += rewards
        self._turns += 1
        done = terminated | truncated
        told: list[dict[str, Any]] = [
            {"task_id": task, "candidates": int(count)}
            for task, count in zip(infos["task_id"], infos["candidates"], strict=True)
        ]
        for i in np.flatnonzero(done).tolist():
            told[i]["terminal_observation"] = infos["final_obs"][i]
            told[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            told[i]["episode"] = {
                "r": float(self._returns[i]), "l": int(self._turns[i]),
                "t": time.monotonic() - self._began,
            }  # fmt: skip
        self._returns[done], self._turns[done] = 0, 0
        return observation, rewards.astype(np.float32), done, told

    def action_masks(self) -> np.ndarray:
        """(num_envs, max_actions) bool: True where a candidate stands."""
        return self.envs.action_masks()

    def close(self) -> None:
        self.envs.close()

    # --- what Stable-Baselines3 asks of slots -------------------------------------------------
    def _some(self, values: Sequence[Any], indices: Any) -> list[Any]:
        return [values[i] for i in self._get_indices(indices)]

    def _has(self, name: str) -> Any:
        """The object that has an attribute: the candidates' wrapper, or else the environment whose
        episodes all slots play."""
        return self.envs if hasattr(self.envs, name) else self.envs.search_envs.env

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute that all slots share, such as ``tasks``; of ``action_masks``, the method
        itself."""
        where = self if attr_name == "action_masks" else self._has(attr_name)
        return self._some([getattr(where, attr_name)] * self.num_envs, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute that all slots share, such as ``params``, hence of all slots only.

        Raises:
            CardError: of some slots.
        """
        if indices is not None and len(self._some(range(self.num_envs), indices)) < self.num_envs:
            raise CardError(f"all slots share one environment; set {attr_name!r} of all of them")
        setattr(self._has(attr_name), attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method; of ``action_masks``, each slot's mask."""
        if method_name == "action_masks":
            return self._some(list(self.action_masks()), indices)
        results = self.envs.search_envs.call(method_name, *method_args, **method_kwargs)
        return self._some(results, indices)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for every wrapper of Gymnasium's, but ``Monitor``: episodes are reported."""
        monitored = wrapper_class.__name__ == "Monitor"
        return self._some([monitored] * self.num_envs, indices)


def vec_env(env: Any, num_envs: int, **options: Any) -> SearchVecEnv:
    """Return environments for Stable-Baselines3.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        num_envs: Episodes at a time.
        options: Those of ``VectorCandidateActions``: ``max_actions``, ``encoder``, ….
    """
    slots = SearchVectorEnv(
        num_envs, env=search_env(env), autoreset_mode=AutoresetMode.SAME_STEP, gc_freeze=False
    )
    candidates = load_known(public_names()["VectorCandidateActions"])
    return SearchVecEnv(candidates(slots, **options))
