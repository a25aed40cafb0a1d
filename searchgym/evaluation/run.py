"""Evaluating an agent: every question once, each under the same rules, recorded with them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..agents.function import FunctionAgent
from ..envs.setting import Setting
from ..envs.setting import setting as setting_of
from ..errors import EvaluationError
from ..types import Agent, Task
from .journal import Journal, discard, finished, trajectories_of
from .machine import note_machine, versions
from .meter import own_counter
from .metrics import Row
from .play import Build, How, Played, episode_for, play, play_in_processes, usage_of
from .result import EvalResult

SCORING = {
    "answer": "of the action that ended the episode, as the dialect reads it",
    "normalisation": "SQuAD",
    "wrong_answers_retried": 0,
}
"""How ``em``, ``f1`` and ``cover_em`` come about; the same in every environment."""


def evaluate(
    agent: Agent | Callable[[Any], Any],
    setting: Setting,
    *,
    name: str | None = None,
    label: str | None = None,
    tasks: Sequence[Task] | None = None,
    seed: int = 0,
    batch: int = 256,
    search_enabled: bool = True,
    progress: Callable[[int], object] | None = None,
    out: Path | None = None,
    fresh: bool = False,
    retry_lost: bool = False,
    workers: int = 1,
    build: Build | None = None,
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, float] | None = None,
) -> EvalResult:
    """Play every task once and measure.

    Args:
        agent: Anything with ``act``, or a function (``searchgym.agents.function``); its
            ``fingerprint``, ``sampling`` and ``usage`` (numbers that grow) are recorded where it
            has them.
        setting: Corpus, engine and rules (``searchgym.envs.setting.setting``).
        name: The agent's name in the result; its class name by default.
        label: The set's name in the result; the corpus name by default.
        tasks: Which tasks; the setting's by default.
        seed: Fixes every episode's keys.
        batch: Episodes played at a time.
        search_enabled: False plays closed-book: same questions, no tools.
        progress: Told how many questions have just finished.
        out: The result's file, ``DIR/<agent>.json``; the trajectories go beside it. What is
            recorded there already is not played again (see ``searchgym.evaluation.journal``), not
            even where more questions are asked now.
        fresh: Delete what ``out`` holds first.
        retry_lost: Play recorded episodes again that the infrastructure ended.
        workers: Processes to share the questions among. The result is the same, as far as the
            agent's texts depend on its requests alone (language models: up to rounding).
        build: Makes agent and setting in each process, if they cannot be sent there themselves.
        options: What the agent was made with, for the record.
        params: Difficulty, as environments take it: ``{"noise": 0.3}``.

    On Ctrl-C the finished questions are kept: the result says ``complete=False``. Where none has
    finished the interrupt goes on to the caller.

    Raises:
        EvaluationError: no tasks, a task that occurs twice, ``out`` holds another run, or a worker
            failed.
        DataError: the recorded trajectories are broken.
        CardError: ``params`` that cannot act here.
    """
    if not isinstance(agent, Agent):
        agent = FunctionAgent(agent)
    chosen = list(setting.tasks if tasks is None else tasks)
    if not chosen:
        raise EvaluationError("there are no tasks to evaluate on")
    if len({task.id for task in chosen}) != len(chosen):
        raise EvaluationError("a task occurs twice; every question is asked once")
    settings = settings_of(
        agent, setting, chosen, search_enabled=search_enabled, batch=batch, options=options,
        params=params,
    )  # fmt: skip
    result = EvalResult(
        name or type(agent).__name__, label or setting.corpus.name, (), settings, seed, False
    )
    if out is None:
        rows: dict[str, Row] = {}
        return _played(result, agent, setting, chosen, rows, None, progress, workers, build)
    if fresh:
        discard(out)
    found = finished(out, result)
    if found is not None and not (retry_lost and found.infra_errors):
        if progress is not None:
            progress(len(chosen))
        return found
    with Journal(trajectories_of(out)) as journal:
        journal.check(chosen)
        if retry_lost:
            journal.forget([k for k, row in journal.rows.items() if row.infra_error])
        # whoever goes on can tell that it is this run, and what is there stays readable
        known = tuple(journal.rows[t.id] for t in chosen if t.id in journal.rows)
        replace(result, rows=known).save(out)
        if len(known) < len(chosen):
            note_machine(out.parent)
        if progress is not None:
            progress(len(journal.rows))
        played = _played(
            result, agent, setting, chosen, journal.rows, journal, progress, workers, build
        )
        if played.complete:
            journal.sort([task.id for task in chosen])
        played.save(out)
    return played


def _played(
    result: EvalResult,
    agent: Agent,
    setting: Setting,
    tasks: Sequence[Task],
    rows: dict[str, Row],
    journal: Journal | None,
    progress: Callable[[int], object] | None,
    workers: int,
    build: Build | None,
) -> EvalResult:
    """The result once the tasks that have no row yet are played."""
    started = time.perf_counter()
    todo = [task for task in tasks if task.id not in rows]
    closed = not result.settings["search_enabled"]
    how = How(
        result.seed, not closed, result.settings["batch"], record=journal is not None,
        params=result.settings.get("params"),
    )  # fmt: skip

    def ended(done: Sequence[Played]) -> None:
        if journal is not None:
            journal.add(done)
        rows.update((row.task_id, row) for row, _ in done)
        if progress is not None:
            progress(len(done))

    before, usage = usage_of(agent), {}
    try:
        if workers > 1 and todo:
            made = build or Here(agent, setting.keywords)
            usage = play_in_processes(made, todo, how, workers, ended)
        elif todo:
            play(agent, setting, todo, how, ended)
    except KeyboardInterrupt:
        if not rows:
            raise
    for kind, n in usage_of(agent).items():
        usage[kind] = usage.get(kind, 0.0) + n - before.get(kind, 0.0)
    return replace(
        result,
        rows=tuple(rows[task.id] for task in tasks if task.id in rows),
        complete=all(task.id in rows for task in tasks),
        duration_s=time.perf_counter() - started,
        usage=usage,
    )


@dataclass(frozen=True)
class Here:
    """An agent as it is and a setting made anew, for other processes; if both pickle."""

    agent: Agent
    keywords: Mapping[str, Any]

    def __call__(self) -> tuple[Agent, Setting]:
        return self.agent, setting_of(self.keywords)


def settings_of(
    agent: Agent,
    setting: Setting,
    tasks: Sequence[Task],
    *,
    search_enabled: bool,
    batch: int,
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Everything that moves the number, as JSON values.

    Corpus and its digest, engine (with its encoder), k, budgets, dialect, instructions, which
    questions, whether search was on, how the answer is read and scored, who counts tokens, the
    agent with its options, fingerprint and sampling (temperature, tokens per turn), package
    versions.
    """
    first = episode_for(setting, tasks[0], 0, search_enabled, params).requests()[0].segments
    told = [segment.text for segment in first if segment.kind == "instructions"]
    asked = [[task.id, task.question, task.answers] for task in tasks]
    return {
        "environment": {k: _plain(v) for k, v in sorted(setting.keywords.items())},
        "corpus": {
            "name": setting.corpus.name,
            "passages": len(setting.corpus),
            "digest": setting.corpus.digest,
        },
        "engine": setting.engine.fingerprint,
        "rules": setting.rules.to_json(),
        **({"params": dict(params)} if params else {}),
        "instructions": _digest(told),
        "questions": {"count": len(tasks), "digest": _digest(asked)},
        "search_enabled": search_enabled,
        "scoring": dict(SCORING),
        "tokens": own_counter(agent) or setting.rules.token_counter,
        "agent": {
            "class": f"{type(agent).__module__}:{type(agent).__qualname__}",
            "options": _plain(dict(options or {})),
            "fingerprint": _plain(getattr(agent, "fingerprint", None)),
            "sampling": _sampling(agent),
            "prompt": _plain(getattr(agent, "prompt_format", None)),
        },
        "batch": batch,
        "versions": versions(),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _sampling(agent: Agent) -> Any:
    found: Any = getattr(agent, "sampling", None)
    return _plain(found._asdict() if hasattr(found, "_asdict") else found)


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
