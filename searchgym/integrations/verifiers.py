"""Tasks and an environment of verifiers, which prime-rl trains in and ``vf-eval`` evaluates.

verifiers finds plug-ins by the name of a top-level module, which is ``searchgym_v1``::

    # searchgym.toml, for: vf-eval @ searchgym.toml
    [env.taskset]
    id = "searchgym-v1"
    env = "SearchQA-v0"
    options = {max_turns = 4}

A player needs no sandbox: :class:`SearchGymHarness` calls the model from the process of the
evaluation. Written for verifiers 0.4, whose dependencies have pins of their own: install it in an
environment beside (``pip install "verifiers==0.4.*" searchgym``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from .common import Host, earned

try:
    import httpx
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.runtimes import ProgramResult, SubprocessConfig
except ImportError as missing:
    raise ImportError(
        'searchgym.integrations.verifiers needs: pip install "verifiers==0.4.*"'
    ) from missing

NAME = "searchgym-v1"


class SearchGymTasksetConfig(vf.TasksetConfig):
    """Settings of the taskset: an environment and its keywords."""

    env: str = "SearchQA-v0"
    """An environment's id."""
    options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Keywords of ``gym.make``."""
    tokenizer: str | None = None
    """Name or folder of the model's tokenizer, whose special tokens no result then holds."""
    seed: int = 0


class SearchGymData(vf.TaskData):
    """A task without its answer."""

    task_id: str


class SearchGymTask(vf.Task[SearchGymData, vf.State, vf.TaskConfig]):
    """A task, which the environment rewards."""


class SearchGymTaskset(vf.Taskset[SearchGymTask, SearchGymTasksetConfig]):
    """The environment's tasks, in their order."""

    def load(self) -> Iterable[SearchGymTask]:
        """Yield each task with its instructions and question."""
        host = host_of(self.config)
        for task in host.env.tasks:
            *system, user = (m["content"] for m in host.messages(host.session(task.id)))
            data = SearchGymData(
                id=task.id, name=task.id, task_id=task.id, prompt=user,
                system_prompt="".join(system) or None,
            )  # fmt: skip
            yield SearchGymTask(data, self.config.task)


def host_of(config: SearchGymTasksetConfig) -> Host:
    """Return a taskset's environment.

    Raises:
        CardError: rules that one growing conversation cannot follow.
    """
    import gymnasium as gym

    return Host(gym.make(config.env, **config.options), config.tokenizer)


class SearchGymHarnessConfig(vf.HarnessConfig):
    """Settings of :class:`SearchGymHarness`."""

    id: str = NAME
    request_timeout: float = 600.0
    """Seconds that a turn may take."""


class SearchGymHarness(vf.Harness[SearchGymHarnessConfig]):
    """Asks the model for a turn, in this process: without a sandbox, a program or a tool server."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = False
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str,
        mcp_urls: dict[str, str], data: Any,
    ) -> Any:  # fmt: skip
        """Send the conversation to the interception server, which records the answer."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or ()]
        async with httpx.AsyncClient(timeout=self.config.request_timeout) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return ProgramResult(int(answer.is_error), "", answer.text if answer.is_error else "")


class SearchGymEnvConfig(vf.EnvConfig):
    """The one agent: who plays."""

    # without validation, which would look the harness up in this module while it is being made
    player: vf.AgentConfig = vf.AgentConfig.model_construct(
        harness=SearchGymHarnessConfig(), runtime=SubprocessConfig()
    )


class SearchGymEnv(vf.Env[SearchGymEnvConfig]):
    """Plays a task's episode: the environment is the player's user."""

    def __init__(self, config: SearchGymEnvConfig) -> None:
        super().__init__(config)
        self._host = host_of(config.taskset)
        self._played: Counter[str] = Counter()

    async def run(self, task: Any, agents: Any) -> None:
        """Play an episode, and record its return and its measures on the trace.

        Raises:
            EpisodeError: the engine failed: verifiers counts no reward for it.
        """
        name = task.data.task_id
        self._played[name] += 1
        seed = self.config.taskset.seed
        session = self._host.session(name, seed, "verifiers", name, self._played[name])
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                step = await asyncio.to_thread(session.step, segment.last_reply)
                if step.done:
                    break
                segment = await interaction.turn(self._host.answer(step.text))
        interaction.trace.record_reward("reward", earned(session))
        interaction.trace.record_metrics(session.metrics)
