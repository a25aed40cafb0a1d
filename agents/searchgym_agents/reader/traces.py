"""Worked examples: episodes solved by the thinking oracle through the real environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from searchgym.core.rollout import run_episodes
from searchgym.envs.search import SearchEnv
from searchgym.evaluation.run import episode_for
from searchgym.types import Segment

from ..experts.thinking_oracle import ThinkingOracle

DEFAULTS: Mapping[str, Any] = {
    "corpus": "encyclopedia",
    "tasks": {"simple": 100, "chain-2": 80, "chain-3": 80},
    "k": 3,
    "snippet_chars": 500,
    "max_turns": 5,
}
OPENING: Mapping[str, Any] = {
    **DEFAULTS,
    "tools": ("search", "access"),
    "k": 3,
    "snippet_chars": 120,
    "max_turns": 9,
}
"""Results are snippets too short to answer from: a page is opened to be read."""
ENTITIES = 300
"""Entities of each world that examples come from: many small worlds, so that names do not come back
and are copied, not learned by heart."""


class Piece(NamedTuple):
    """A stretch of a transcript."""

    text: str
    own: bool
    """True if the policy wrote it."""


class Trace(NamedTuple):
    """One solved episode."""

    task_id: str
    hops: int
    pieces: tuple[Piece, ...]


def pieces_of(segments: Sequence[Segment]) -> tuple[Piece, ...]:
    """A context as a small model reads it: all but the instructions, which never change."""
    return tuple(Piece(s.text, s.author == "policy") for s in segments if s.kind != "instructions")


def traces_of(made: SearchEnv, *, seed: int = 0) -> Iterator[Trace]:
    """Yield the episodes of an environment's tasks that the oracle solves; where the engine shows
    too little, there is nothing to learn from."""
    episodes = [episode_for(made, task, seed) for task in made.tasks]
    for episode in run_episodes(episodes, ThinkingOracle(made), made.toolbox):
        outcome = episode.outcome()
        if outcome is not None and outcome.parts.get("em") == 1.0:
            task = episode.config.task
            yield Trace(task.id, task.hops, pieces_of(episode.contexts.visible(0)))
