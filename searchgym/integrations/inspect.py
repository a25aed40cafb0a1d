"""Tasks of Inspect: a model plays an environment's episodes, and its return is the score.

::

    # searchgym_task.py, for: inspect eval searchgym_task.py --model openai/…
    from inspect_ai import task
    from searchgym.integrations import inspect

    @task
    def search_qa():
        return inspect.search_task("SearchQA-v0", limit=100)

The solver :func:`play` writes no text of its own: it hands the model's text to the episode and the
episode's to the model. Written for Inspect 0.3 (``pip install inspect-ai``).
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from ..envs.session import METRICS
from ..errors import EpisodeError
from .common import Host, earned

try:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as missing:
    raise ImportError("searchgym.integrations.inspect needs: pip install inspect-ai") from missing

_PLAYED = "searchgym"
"""Key of a sample's store under which the solver leaves what the scorer reads."""


def search_task(
    env: Any, *, limit: int | None = None, tokenizer: Any = None, seed: int = 0
) -> Task:
    """Return the environment's tasks with their solver and scorer.

    Args:
        env, tokenizer: As of :class:`~searchgym.integrations.common.Host`.
        limit: Number of tasks, the first ones; by default all.
        seed: Seed of everything random in the episodes.

    Raises:
        CardError: rules that one growing conversation cannot follow.
    """
    host = Host(env, tokenizer)
    roles = {"system": ChatMessageSystem, "user": ChatMessageUser}
    samples = [
        Sample(
            id=task.id, metadata={},
            input=[roles[m["role"]](content=m["content"])
                   for m in host.messages(host.session(task.id))],
        )
        for task in islice(host.env.tasks, limit)
    ]  # fmt: skip
    name = host.env.spec.id if host.env.spec is not None else type(host.env).__name__
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=play(host.env, tokenizer=tokenizer, seed=seed),
        scorer=episode_return(),
    )


@solver
def play(env: Any, *, tokenizer: Any = None, seed: int = 0) -> Solver:
    """Return a solver that plays the episode of a sample, whose id is a task's.

    Raises:
        EpisodeError: the engine failed: Inspect counts an error, not a score of 0.
    """
    host = Host(env, tokenizer)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        name = str(state.sample_id)
        session = host.session(name, seed, "inspect", name, state.epoch)
        while not session.done:
            state = await generate(state)
            step = await asyncio.to_thread(session.step, state.output.completion)
            if not step.done:
                state.messages.append(ChatMessageUser(content=host.answer(step.text)))
        state.store.set(_PLAYED, {"return": earned(session), "metrics": session.metrics})
        return state

    return solve


@scorer(metrics={"return": [mean(), stderr()], **{name: [mean()] for name in METRICS}})
def episode_return() -> Scorer:
    """Return a scorer that gives the episode's return and its measures."""

    async def score(state: TaskState, target: Target) -> Score:
        played = state.store.get(_PLAYED)
        if played is None:
            raise EpisodeError("nothing was played: use searchgym.integrations.inspect.play")
        return Score(value={"return": played["return"], **played["metrics"]})

    return score
