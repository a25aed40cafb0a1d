"""Two scripted agents and a reward of one's own: the same floats are asked for through every
door."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

import searchgym  # noqa: F401 (registers the environments)
from searchgym.dialects import get_dialect
from searchgym.types import Answer, Search, Task
from tests.integrations.scene import SCENE

AGENTS = ("oracle", "hesitant")
REWARD = "tests.integrations.scores:pay"
"""By its import path, as files of other projects name it."""


def pay(outcome: Any) -> float:
    """A reward whose floats have many digits: the shorter the answer and the fewer the turns, the
    better."""
    if outcome.end is None:
        return 0.0
    return (outcome.f1 + 0.1 / (3 + len(outcome.answer))) / (2 + len(outcome.turns))


def script(agent: str, task: Task) -> list[Search | Answer]:
    """The agent's actions: the oracle searches the gold queries; the other one searches the
    question twice and says too much, or something wrong."""
    if agent == "oracle":
        return [*(Search((query,)) for query in task.queries), Answer(task.answers[0])]
    long = f"{task.answers[0]} or so" if len(task.question) % 3 else "nothing of the kind"
    return [Search((task.question,)), Search((f"{task.question} please",)), Answer(long)]


def texts(agent: str, task: Task, dialect: str = "search_r1") -> list[str]:
    """The same as texts of a dialect."""
    return [get_dialect(dialect).render_action(action) for action in script(agent, task)]


def expected(agent: str) -> dict[str, float]:
    """Task → return, by ``gym.make``."""
    env = gym.make("SearchQA-v0", **SCENE, reward=REWARD)
    found = {}
    for task in env.unwrapped.tasks:  # type: ignore[attr-defined]
        env.reset(options={"task_id": task.id})
        total = 0.0
        for text in texts(agent, task):
            _, reward, terminated, truncated, _ = env.step(text)
            total += float(reward)
        assert terminated or truncated
        found[task.id] = total
    assert len(set(found.values())) > 1
    return found
