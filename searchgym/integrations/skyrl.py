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

from ..envs.session import Session
from ..envs.unwrap import search_env
from ..errors import CardError, EpisodeError
from ..seeding import derive
from .text import harmless
from .trl import one_row

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError as missing:
    raise ImportError("searchgym.integrations.skyrl needs: pip install skyrl-gym") from missing


class _Shared:
    """The environment and what cleans texts, made once: skyrl-gym copies what it is given for each
    episode, and this is its own copy."""

    def __init__(self, env: Any, tokenizer: Any) -> None:
        self.env, self.clean = search_env(env), harmless(tokenizer)
        one_row(self.env)

    def __deepcopy__(self, memo: Any) -> _Shared:
        return self


class SkyRLEnv(BaseTextEnv):
    """One episode.

    Args:
        env_config: SkyRL's settings of the environment class; not used.
        extras: The row: ``task_id``, ``max_turns`` (SkyRL writes its own) and, for luck that
            differs between the members of a group, ``seed``.
        env: An environment's id, an environment, or what :func:`register` made of one.
        tokenizer: Name or folder of the model's tokenizer, whose special tokens no result holds.

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
        shared = env if isinstance(env, _Shared) else _Shared(env, tokenizer)
        inner = shared.env
        allowed = row.get("max_turns", inner.rules.max_turns)
        if allowed != inner.rules.max_turns:
            raise CardError(
                f"the trainer plays {allowed} turns, and the environment allows "
                f"{inner.rules.max_turns}: make them equal, generator.max_turns="
                f"{inner.rules.max_turns}"
            )
        self.max_turns = int(allowed)
        task = row.get("task_id")
        key = derive(int(row.get("seed", 0)), "skyrl", str(task))
        self.session = Session(inner, task, key=key)
        self._harmless = shared.clean

    def init(self, prompt: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Return the environment's own prompt in place of the row's."""
        messages = [
            {**message, "content": self._harmless(message["content"])}
            for message in self.session.messages
        ]
        return messages, {"task_id": self.session.episode.config.task.id}

    def step(self, action: str) -> dict[str, Any]:
        """Let the policy's text act. ``postprocessed_action`` stays ``None``: what was sampled is
        what is trained on."""
        step = self.session.step(action)
        self.turns += 1
        if self.session.reward is None:
            raise EpisodeError(
                "the engine failed; SkyRL drops a rollout whose environment raises, and would "
                "train on a reward of 0"
            )
        said = [] if step.done else [{"role": "user", "content": self._harmless(step.text)}]
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
    shared = _Shared(env, tokenizer)
    skyrl_gym.register(id=name, entry_point=f"{__name__}:SkyRLEnv", kwargs={"env": shared})


def rows(env: Any, name: str) -> list[dict[str, Any]]:
    """Return a row of SkyRL's training file for each task: ``prompt``, ``env_class``,
    ``task_id``."""
    return [
        {
            "prompt": [{"role": "user", "content": task.question}],
            "env_class": name,
            "task_id": task.id,
        }
        for task in search_env(env).tasks
    ]
