"""How an episode begins, the same for single and vector environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..curricula import Curriculum, checked_difficulty, next_task
from ..episode import Episode
from ..errors import CardError, unknown
from ..rules import EpisodeConfig
from ..seeding import derive
from ..types import Task
from .difficulty import Applied, applied
from .setting import Setting

RESET_OPTIONS = ("task_id", "search_enabled", "params", "difficulty")


def start_episode(
    shared: Setting,
    curriculum: Curriculum,
    key: int,
    options: Mapping[str, Any] | None = None,
    search_enabled: bool = True,
    params: Mapping[str, float] | None = None,
) -> Episode:
    """The episode that ``key`` determines.

    ``options`` may name the task (``task_id``; then no axis and no curriculum chooses it), switch
    its tools off (``search_enabled``), set difficulty parameters (``params``, over the curriculum's
    and the environment's), and above all those the difficulty vector (``difficulty``: axes of
    ``searchgym.curricula.AXES`` alone).

    Raises:
        CardError: an unknown option or axis, a value out of range, or an axis that cannot act here.
    """
    options = options or {}
    for name in options:
        if name not in RESET_OPTIONS:
            raise CardError(unknown("reset option", name, RESET_OPTIONS))
    vector = checked_difficulty(options.get("difficulty") or {})
    over = {**(params or {}), **(options.get("params") or {}), **vector}
    task_id = options.get("task_id")
    named = None if task_id is None else shared.tasks[shared.position(task_id)]
    chosen = derive(key, "task")
    task, merged = next_task(curriculum, shared.pool, chosen, over=over, task=named)
    played = applied(shared, merged)
    return episode_of(
        task, played, key, search_enabled=bool(options.get("search_enabled", search_enabled))
    )


def episode_of(
    task: Task,
    played: Applied,
    key: int,
    *,
    episode_id: str | None = None,
    search_enabled: bool = True,
) -> Episode:
    """A task's episode at a difficulty; ``key`` is its seed and by default its name."""
    return Episode(
        EpisodeConfig(
            task=task,
            rules=played.rules,
            seed=key,
            episode_id=f"{key:016x}" if episode_id is None else episode_id,
            search_enabled=search_enabled,
            params=played.params,
        )
    )


def tell(curriculum: Curriculum, episode: Episode) -> None:
    """Tell a curriculum how an episode ended, unless the infrastructure ended it."""
    outcome = episode.outcome()
    if outcome is not None and outcome.end != "infra_error":
        config = episode.config
        reward = sum([turn.reward for turn in episode.turns])
        curriculum.observe(config.task.id, reward, config.params)
