"""Search environments as a server of OpenEnv, and a client with types.

``searchgym serve --openenv SearchQA-v0`` serves one on loopback; from Python::

    from searchgym.integrations.openenv import SearchClient

    with SearchClient(base_url="http://127.0.0.1:8000").sync() as env:
        result = env.reset(seed=0)  # also: task_id=…, split=…, index=…, difficulty={…}
        while not result.done:
            result = env.step(SearchAction(text=policy(result.observation.text)))

Every trainer that speaks OpenEnv (TRL, verifiers, SkyRL, ART) reaches the environment so. Written
for OpenEnv 0.10, whose dependencies have pins of their own: install it in an environment beside
(``pip install "openenv>=0.10" httptools searchgym``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

from ..core.episode import Episode, run_tools
from ..envs.info import public_id, step_info
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import CardError
from ..seeding import derive
from ..serve import guard, is_quick, time_queries
from ..tools.retrieval import SearchTool
from .common import harmless

try:
    from fastapi.exception_handlers import request_validation_exception_handler
    from fastapi.exceptions import RequestValidationError
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
    from pydantic import Field
except ImportError as missing:
    raise ImportError('searchgym.integrations.openenv needs: pip install "openenv>=0.10"') from (
        missing
    )


_QUICK_OPTIONS = frozenset({"task_id", "search_enabled"})
"""Options of ``reset`` that build nothing."""


class SearchAction(Action):
    """A policy's text, in the environment's dialect."""

    text: str


class SearchObservation(Observation):
    """Observation of the policy after ``reset`` or ``step``; ``reward`` is ``None`` where the
    infrastructure failed."""

    text: str
    """The whole visible context."""
    delta: str = ""
    """Text that the environment wrote since the last action."""
    stop: list[str] = Field(default_factory=list)
    """Strings after which generation should stop."""
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = Field(default_factory=dict)
    """Info as in Gymnasium but for ``delta``, which is a field of its own; answers and evidence are
    told at the end only."""


class SearchState(State):
    """Progress of the episode."""

    task_id: str | None = None
    turns_left: int = 0


class OpenEnvEnvironment(Environment):
    """One session of a client.

    Args:
        env: Environment whose episodes are played; sessions share it.
        tokenizer: As of :func:`app`.
        seconds: Seconds of a query where steps may be taken on the server's event loop
            (:func:`seconds_per_query`); ``None`` takes all of them in threads.
        threads: Where the others are taken; by default asyncio's own, which are few.
        luck: Numbers of episodes that begin without a seed. Sessions that share it differ.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        env: SearchEnv,
        tokenizer: Any = None,
        *,
        seconds: float | None = None,
        threads: Executor | None = None,
        luck: Iterator[int] | None = None,
    ) -> None:
        super().__init__()
        self._env, self._playing = env, env
        self._seconds, self._threads = seconds, threads
        self._harmless = harmless(tokenizer)
        self._episode: Episode | None = None
        self._luck = count() if luck is None else luck

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> SearchObservation:
        """Begin an episode. Equal seeds begin equal ones; without, each differs from the others,
        also from those of the app's other sessions.

        Raises:
            CardError: an option that is none of ``task_id``, ``split``, ``index``, ``params``,
                ``difficulty`` and ``search_enabled``, or a task that is not there.
        """
        if "index" in options:
            split, index = options.get("split"), options.pop("index")
            if type(index) is not int:
                raise CardError(f"index is a whole number from 0, got {index!r:.80}")
            try:
                task = self.get_task(split or self._env.setup.options.split, index)
            except IndexError as error:  # which is what OpenEnv's own routes understand
                raise CardError(str(error)) from None
            options["task_id"] = task["id"]
        source = (next(self._luck), "luck") if seed is None else (seed,)
        key = derive(*source, "openenv")
        self._playing, self._episode = self._env.begin(key, options)
        return self._observation(None)

    def step(
        self, action: SearchAction, timeout_s: float | None = None, **_: Any
    ) -> SearchObservation:
        """Let the text act; after the end, the last observation is given again."""
        episode = self._episode
        if episode is None:
            raise CardError("no episode yet: call reset() first")
        if episode.phase == "done":
            return self._observation(0.0)
        episode.act(action.text)
        run_tools((episode,), self._playing.toolbox)
        if episode.phase == "done":
            self._playing.ended(episode)
        return self._observation(episode.turns[-1].reward)

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> SearchObservation:
        """Do the same as ``reset``, at once where no other split or difficulty is asked for."""
        reset = partial(self.reset, seed, episode_id, **options)
        if self._seconds is not None and options.keys() <= _QUICK_OPTIONS:
            return reset()
        return await asyncio.get_running_loop().run_in_executor(self._threads, reset)

    async def step_async(
        self, action: SearchAction, timeout_s: float | None = None, **_: Any
    ) -> SearchObservation:
        """Do the same as ``step`` without keeping other sessions waiting: at once where that takes
        microseconds, for a hop to a thread costs as much, else in a thread."""
        if self._quick(action.text):
            return self.step(action)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.step, action)

    def _quick(self, text: str) -> bool:
        env, seconds = self._env, self._seconds
        if seconds is None or self._playing is not env:  # another split was not timed
            return False
        rules = env.rules
        return is_quick(seconds, rules.max_parallel, len(text), rules.k)

    @property
    def state(self) -> SearchState:
        """Progress of the episode."""
        episode = self._episode
        if episode is None:
            return SearchState()
        return SearchState(
            episode_id=episode.config.episode_id,
            step_count=len(episode.turns),
            task_id=public_id(episode.config.task.question),
            turns_left=episode.turns_left,
        )

    def get_metadata(self) -> Any:
        """Return the server's description of itself."""
        from ..utils.version import __version__

        return EnvironmentMetadata(
            name="searchgym", description="Search episodes with exact rewards", version=__version__
        )

    def _observation(self, reward: float | None) -> SearchObservation:
        assert self._episode is not None
        episode = self._episode
        outcome = episode.outcome()
        broken = outcome is not None and outcome.end == "infra_error"
        over = episode.phase == "done"
        requests = () if over else episode.requests()
        return SearchObservation(
            text=self._harmless(episode.shown()),
            delta=self._harmless(episode.delta),
            stop=list(requests[0].stop) if requests else [],
            done=over,
            terminated=over and episode.terminated,
            truncated=over and episode.truncated,
            reward=None if broken else reward,
            info={
                name: value if type(value) in _PLAIN else _json(value)
                for name, value in step_info(episode).items()
                if name != "delta"
            },
        )

    # --- tasks, as OpenEnv's TaskProvider ------------------------------------------------------
    def list_splits(self) -> list[str]:
        """The splits that ``reset`` takes."""
        own = self._env.setup.options.split
        return ["train", "dev", "test"] if self._env.world is not None else [own]

    def _tasks(self, split: str) -> Any:
        if split not in self.list_splits():
            raise IndexError(f"there is no split {split!r:.80}: {self.list_splits()}")
        return self._env.of_split(split).tasks

    def num_tasks(self, split: str) -> int:
        """Number of a split's tasks."""
        return len(self._tasks(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """A split's tasks, without answers."""
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """A task's id, as observations have it, and its question, without its answer."""
        tasks = self._tasks(split)
        if not 0 <= index < len(tasks):
            raise IndexError(f"{split} has tasks 0 to {len(tasks) - 1}, got {index}")
        task = tasks[index]
        return {"id": public_id(task.question), "index": index, "question": task.question}

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks ``start`` to ``stop`` of a split."""
        places = range(self.num_tasks(split))[start:stop]
        return [self.get_task(split, index) for index in places]


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _json(value: Any) -> Any:
    """The value as JSON has it: tuples become lists, and what JSON does not know a text."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return [_json(one) for one in value]
    if kind is dict and all(type(name) is str for name in value):
        return {name: _json(one) for name, one in value.items()}
    return json.loads(json.dumps(value, default=str))


def seconds_per_query(env: SearchEnv) -> float | None:
    """Measure the median seconds of a query, where nothing else of a step can take time.

    ``None`` where something may: an engine that does not answer from memory, a tool besides
    ``search``, a part of the reward that is one's own.
    """
    for tool in env.toolbox.tools.values():
        if type(tool) is not SearchTool or tool.engine is not env.engine:
            return None
    return None if env.rules.reward.own else time_queries(env.engine, env.corpus)


def app(
    env: Any, *, tokenizer: Any = None, max_sessions: int = 64, hosts: Sequence[str] | None = None
) -> Any:
    """Return the server as a FastAPI application. What is wrong with a request is told (422).

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        tokenizer: Name or folder of the tokenizer of the clients' model; by default the special
            tokens of all common families are made harmless in results.
        max_sessions: Most clients at a time.
        hosts: Names by which it may be called; None: any, and pages of other sites by none.
    """
    inner = search_env(env)
    seconds, threads = seconds_per_query(inner), ThreadPoolExecutor(max_sessions)
    made = partial(
        OpenEnvEnvironment, inner, tokenizer, seconds=seconds, threads=threads, luck=count()
    )
    made_app = create_app(
        made,
        SearchAction,
        SearchObservation,
        env_name="searchgym",
        max_concurrent_envs=max_sessions,
        state_cls=SearchState,
    )
    made_app.add_exception_handler(RequestValidationError, _invalid)
    return guard(made_app, hosts)


async def _invalid(request: Any, error: Any) -> Any:
    """FastAPI's own answer, which cannot be written where it repeats a number that is no JSON."""
    try:
        return await request_validation_exception_handler(request, error)
    except ValueError:
        raise CardError(f"the request is not valid: {error.errors()[0]['msg']}") from None


class SearchClient(EnvClient[SearchAction, SearchObservation, SearchState]):
    """A client whose actions and observations have types."""

    def _step_payload(self, action: SearchAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        fields = dict(payload.get("observation", {}))
        done, reward = bool(payload.get("done")), payload.get("reward")
        observation = SearchObservation(**{**fields, "done": done, "reward": reward})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> SearchState:
        return SearchState(**payload)
