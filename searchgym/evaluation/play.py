"""Playing evaluation episodes, here or shared out among processes, the same either way; and what
an agent's turns took: tokens, dollars."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..core.episode import Episode
from ..core.rollout import run_episodes
from ..core.rules import TOKEN_COUNTERS
from ..core.trajectory import Trajectory, to_line
from ..curricula import Uniform
from ..curricula.axes import TaskPool, difficulty_of
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import EvaluationError
from ..seeding import derive
from ..types import Agent, Failure, Task, TurnRequest
from .metrics import Row, row_of

if TYPE_CHECKING:
    from ..utils.processes import Channel

T = TypeVar("T")
Build = Callable[[], tuple[Agent, SearchEnv]]
"""Function that makes agent and environment where they are needed; for other processes it must
pickle."""
Question = tuple[Task, Mapping[str, float]]
"""A task and the difficulty parameters it is asked with, over those of the environment."""
Played = tuple[Row, str]
"""A finished episode: its row, and its trajectory as a line ("" if not recorded)."""
Finished = Callable[[Sequence[Played]], object]


class How(NamedTuple):
    """Options of play, the same in every process: ``search_enabled=None`` leaves it to the
    environment, ``batch`` is of all processes together, ``record`` makes trajectories."""

    seed: int
    search_enabled: bool | None = None
    batch: int = 256
    record: bool = False


def episode_for(
    env: SearchEnv,
    task: Task,
    seed: int,
    search_enabled: bool | None = None,
    params: Mapping[str, float] | None = None,
) -> Episode:
    """Begin the evaluation episode of a task: fixed by ``seed`` and the task's id, not by its
    place. ``CardError`` for ``params`` that cannot act in the environment."""
    key = derive(seed, "evaluate", task.id)
    return env.start(key, task=task, params=params, search_enabled=search_enabled)


def tasks_within(env: SearchEnv, tasks: Sequence[Task] | None = None) -> list[Task]:
    """The tasks (default: the environment's) that the axes ``hops``, ``branches`` and ``blur`` of
    its parameters leave, as a reset would.

    Raises:
        CardError: they leave none, or a task does not say where it stands.
    """
    return list(TaskPool(env.tasks if tasks is None else tasks).within(difficulty_of(env.params)))


def spread(tasks: Sequence[T], number: int | None) -> list[T]:
    """``number`` tasks at even distances: sets are sorted by family, and each has its share."""
    n = len(tasks)
    if number is None or number >= n:
        return list(tasks)
    return [tasks[i * n // number] for i in range(number)]


def questions_of(env: SearchEnv, tasks: Sequence[Task]) -> list[Question]:
    """Each task with the parameters that the environment's curriculum asks it with.

    A schedule is followed from where it stands, one episode a task, in order. The environment
    itself is left as it is.

    Raises:
        EvaluationError: the curriculum adapts to results, so that every agent would be asked
            something else.
    """
    curriculum = env.curriculum
    if isinstance(curriculum, Uniform):
        return [(task, {}) for task in tasks]
    if curriculum.adapts:
        raise EvaluationError(
            f"the curriculum {type(curriculum).__name__} adapts to results, so every agent would "
            "be asked something else: evaluate with params={…}, or with a schedule such as "
            "curriculum={'use': 'scheduled', …}"
        )
    schedule = copy.deepcopy(curriculum)
    questions: list[Question] = []
    for task in tasks:
        params = dict(schedule.params(task))
        questions.append((task, params))
        schedule.observe(task.id, 0.0, params)
    return questions


def fixed(env: SearchEnv) -> SearchEnv:
    """Return the environment without a curriculum whose parameters the questions carry."""
    if not isinstance(env.curriculum, Uniform):
        env.curriculum = Uniform()
    return env


def play(
    agent: Agent, env: SearchEnv, questions: Iterable[Question], how: How, finished: Finished
) -> None:
    """Play each question; ``finished`` is handed the episodes as they end."""
    meter = Meter(agent, env.rules.token_counter)

    def ended(episodes: Sequence[Episode]) -> None:
        done = []
        for episode in episodes:
            env.ended(episode)
            took = meter.take(episode.config.episode_id)
            line = to_line(Trajectory.of(episode, usage=took)) if how.record else ""
            done.append((row_of(episode, took), line))
        finished(done)

    episodes = (
        episode_for(env, task, how.seed, how.search_enabled, params) for task, params in questions
    )
    run_episodes(episodes, meter, env.toolbox, batch=how.batch, finished=ended)


def play_in_processes(
    build: Build, questions: Sequence[Question], how: How, workers: int, finished: Finished
) -> dict[str, float]:
    """:func:`play` in ``workers`` spawned processes, each with its own agent and environment;
    returns what their agents say that they used up.

    Tasks go to the next process with room, so slow episodes do not hold up others. When one process
    fails or this one is interrupted, all are ended; episodes passed to ``finished`` stay done.

    Raises:
        EvaluationError: ``build`` does not pickle, a process failed (with its error) or was killed.
    """
    from ..utils.processes import Crew

    workers = max(1, min(workers, len(questions)))
    how = how._replace(batch=max(1, -(-min(how.batch, len(questions)) // workers)))
    usage: dict[str, float] = {}
    waiting = iter(questions)
    instead = "use workers=1, or build=: a function of a module that returns (agent, env)"
    with Crew(_work, [(build, how)] * workers, instead) as crew:
        for message in crew.messages():
            if message.kind == "next":
                message.reply(next(waiting, None))
            elif message.kind == "finished":
                finished(message.value)
            else:
                used = message.value
                usage = {k: usage.get(k, 0.0) + used.get(k, 0.0) for k in {**usage, **used}}
    return usage


def _work(parent: Channel, share: tuple[Build, How]) -> dict[str, float]:
    build, how = share

    def questions() -> Iterator[Question]:
        while True:
            parent.send(("next", None))
            if (question := parent.recv()) is None:
                return
            yield question

    agent, env = build()
    env = fixed(search_env(env, stepped=True))
    play(agent, env, questions(), how, lambda done: parent.send(("finished", done)))
    return usage_of(agent)


def usage_of(agent: Agent) -> dict[str, float]:
    """Usage that the agent reports so far, if it reports any."""
    return {name: float(n) for name, n in (getattr(agent, "usage", None) or {}).items()}


class Meter:
    """Plays as the agent does, and adds up what its turns took.

    Agents that name their own ``token_counter`` hand out :class:`~searchgym.types.Metered` texts;
    of a turn that says nothing (a server that does not count, a failure) the episode's number is
    unknown. Of other agents' requests and texts the tokens are counted by ``counter``.
    """

    def __init__(self, agent: Agent, counter: str) -> None:
        self.agent = agent
        self._count = None if own_counter(agent) else TOKEN_COUNTERS[counter]
        self._took: dict[str, dict[str, float]] = {}

    def act(self, requests: Sequence[TurnRequest], /) -> Sequence[str | Failure]:
        texts: Any = self.agent.act(requests)
        if not hasattr(texts, "__len__"):  # the episodes refuse it
            return texts
        for request, text in zip(requests, texts, strict=False):  # the episodes refuse other sizes
            took = self._took.setdefault(request.episode_id, {})
            for name, n in self._turn(request, text).items():
                took[name] = took.get(name, 0.0) + n
        return texts

    def take(self, episode_id: str) -> dict[str, float]:
        """Return and forget an episode's usage; unknown numbers are left out."""
        took = self._took.pop(episode_id, {})
        return {name: n for name, n in took.items() if not math.isnan(n)}

    def _turn(self, request: TurnRequest, text: str | Failure) -> dict[str, float]:
        if self._count is not None:
            written = self._count(text) if isinstance(text, str) else 0  # not of a failure
            read = sum(self._count(segment.text) for segment in request.segments)
            return {"tokens_in": float(read), "tokens_out": float(written)}
        unknown = {"tokens_in": math.nan, "tokens_out": math.nan}
        return unknown | {k: float(v) for k, v in getattr(text, "usage", {}).items()}


def own_counter(agent: Agent) -> str | None:
    """Object that counts the agent's tokens, where it does so itself."""
    name = getattr(agent, "token_counter", None)
    return str(name) if name else None
