"""How an episode begins, the same for single and vector environments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from ..curricula import Curriculum
from ..episode import Episode
from ..errors import CardError, unknown
from ..rules import EpisodeConfig
from ..seeding import derive
from .setting import Setting

RESET_OPTIONS = ("task_id", "search_enabled", "params")


def start_episode(
    shared: Setting,
    curriculum: Curriculum,
    key: int,
    options: Mapping[str, Any] | None = None,
    search_enabled: bool = True,
    params: Mapping[str, float] | None = None,
) -> Episode:
    """The episode that ``key`` determines.

    ``options`` may name the task (``task_id``), switch its tools off (``search_enabled``) and set
    difficulty parameters (``params``, over the curriculum's and the environment's).
    """
    options = options or {}
    for name in options:
        if name not in RESET_OPTIONS:
            raise CardError(unknown("reset option", name, RESET_OPTIONS))
    if (task_id := options.get("task_id")) is not None:
        task = shared.tasks[shared.position(task_id)]
    else:
        task = shared.tasks[curriculum.choose(shared.tasks, derive(key, "task"))]
    merged = {**curriculum.params(), **(params or {}), **(options.get("params") or {})}
    return Episode(
        EpisodeConfig(
            task=task,
            rules=shared.rules,
            seed=key,
            episode_id=f"{key:016x}",
            search_enabled=bool(options.get("search_enabled", search_enabled)),
            params={name: _number(name, value) for name, value in merged.items()},
        )
    )


def _number(name: str, value: object) -> float:
    """A plain, finite number, also from a NumPy one: parameters end up in records, which are
    JSON."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise CardError(f"the difficulty parameter {name!r} must be a number, got {value!r}")
    return value if isinstance(value, (int, float)) else float(value)
