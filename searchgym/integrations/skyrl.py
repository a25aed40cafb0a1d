"""Environments of skyrl-gym, in which SkyRL trains: a policy writes, the environment answers.

::

    from searchgym.integrations import skyrl

    skyrl.register("searchgym", "SearchQA-v0", tokenizer="Qwen/Qwen3-0.6B")
    rows = skyrl.rows("SearchQA-v0", "searchgym")  # the training file's, prompts and task ids

skyrl-gym's registry is a process's own: call :func:`register` in the Ray worker, too. Written for
skyrl-gym 0.4, which has pins of its own: install it in an environment beside (``pip install
skyrl-gym searchgym``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..envs.unwrap import search_env
from ..errors import CardError
from .common import Host, earned

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError as missing:
    raise ImportError("searchgym.integrations.skyrl needs: pip install skyrl-gym") from missing


class SkyRLEnv(BaseTextEnv):
    """One episode.

    Args:
        env_config: SkyRL's settings of the environment class; not used.
        extras: The row: ``task_id``, ``max_turns`` (SkyRL writes its own) and, for luck that
            differs between the members of a group, ``seed``.
        env, tokenizer: As of :class:`~searchgym.integrations.common.Host`; or ``env`` is one.

    Raises:
        CardError: the trainer's ``max_turns`` is not the environment's.
    """

    def __init__(
        self,
        env_config: Any = None,
        extras: Mapping[str, Any] | None = None,
        env: Any = "SearchQA-v0",
        tokenizer: Any = None,
    ) -> None:
        super().__init__()
        row = dict(extras or {})
        self.host = env if isinstance(env, Host) else Host(env, tokenizer)
        turns = self.host.env.rules.max_turns
        if (allowed := row.get("max_turns", turns)) != turns:
            raise CardError(
                f"the trainer plays {allowed} turns, and the environment allows {turns}: make them "
                f"equal, generator.max_turns={turns}"
            )
        self.max_turns, task = int(allowed), row.get("task_id")
        self.session = self.host.session(task, int(row.get("seed", 0)), "skyrl", str(task))

    def init(self, prompt: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Return the environment's own prompt in place of the row's."""
        task = self.session.episode.config.task.id
        return self.host.messages(self.session), {"task_id": task}

    def step(self, action: str) -> dict[str, Any]:
        """Let the policy's text act. ``postprocessed_action`` stays ``None``: what was sampled is
        what is trained on. SkyRL drops a rollout whose environment raises, as this one does where
        the engine failed; it would train on a reward of 0."""
        step = self.session.step(action)
        self.turns += 1
        earned(self.session)
        said = [] if step.done else [{"role": "user", "content": self.host.clean(step.text)}]
        return {
            "observations": said, "reward": step.reward, "done": step.done, "metadata": {},
            "postprocessed_action": None,
        }  # fmt: skip

    def get_metrics(self) -> dict[str, float]:
        """Measures with the same keys however the episode ended."""
        return self.session.metrics


def register(name: str, env: Any = "SearchQA-v0", tokenizer: Any = None) -> None:
    """Register ``name`` with skyrl-gym for ``env``.

    Raises:
        CardError: rules that one growing conversation cannot follow.
    """
    host = Host(env, tokenizer)
    skyrl_gym.register(id=name, entry_point=f"{__name__}:SkyRLEnv", kwargs={"env": host})


def rows(env: Any, name: str) -> list[dict[str, Any]]:
    """Return a row of SkyRL's training file for each task: ``prompt``, ``env_class``,
    ``task_id``."""
    return [
        {"prompt": [{"role": "user", "content": task.question}], "env_class": name,
         "task_id": task.id}
        for task in search_env(env).tasks
    ]  # fmt: skip
