"""Evaluating an agent: every question once, each under the same rules, recorded with them."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..agents.simple import FunctionAgent
from ..core.rules import checked_switch, name_of
from ..curricula import Uniform, number_table
from ..dialects.base import get_dialect
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import CardError, EvaluationError
from ..objects import check_whole
from ..scoring import SCORING_VERSION
from ..storage.files import value_digest
from ..types import Agent, Task
from ..utils.trust import own_code, own_sources
from .journal import Journal, discard, finished, trajectories_of
from .machine import note_machine, versions
from .metrics import Row
from .play import (
    Build,
    How,
    Played,
    Question,
    episode_for,
    fixed,
    own_counter,
    play,
    play_in_processes,
    questions_of,
    tasks_within,
    usage_of,
)
from .result import EvalResult

SCORING = {
    "version": SCORING_VERSION,
    "answer": "of the action that ended the episode, as the dialect reads it",
    "normalisation": "SQuAD",
    "wrong_answers_retried": 0,
}
"""Definition of ``em``, ``f1`` and ``cover_em``, the same in every environment."""


def evaluate(
    agent: Agent | Callable[[Any], Any],
    env: Any,
    *,
    name: str | None = None,
    label: str | None = None,
    tasks: Sequence[Task] | None = None,
    seed: int = 0,
    batch: int = 256,
    search_enabled: bool | None = None,
    progress: Callable[[int], object] | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    retry_lost: bool = False,
    workers: int = 1,
    build: Build | None = None,
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, float] | None = None,
) -> EvalResult:
    """Play every task once and measure.

    Args:
        agent: Anything with ``act``, or a function (``searchgym.agents.simple``); its
            ``fingerprint``, ``sampling`` and ``usage`` (numbers that grow) are recorded where it
            has them.
        env: An environment, wrapped or not, its id, or a Gymnasium spec. Its ``params``,
            ``search_enabled`` and scheduled curriculum hold, and so do wrappers; those that act in
            ``step`` or ``reset`` slow it down (:mod:`searchgym.envs.stepping`).
        name: The agent's name in the result; its class name by default.
        label: The set's name in the result; the corpus name by default.
        tasks: Which tasks; the environment's by default.
        seed: Fixes every episode's keys.
        batch: Episodes played at a time.
        search_enabled: False plays closed-book: same questions, no tools. By default as the
            environment says.
        progress: Told how many questions have just finished.
        out: The result's file, ``DIR/<agent>.json``; the trajectories go beside it. What is
            recorded there already is not played again (see ``searchgym.evaluation.journal``), not
            even where more questions are asked now.
        fresh: Delete what ``out`` holds first.
        retry_lost: Play recorded episodes again that the infrastructure ended.
        workers: Processes to share the questions among. The result is the same, as far as the
            agent's texts depend on its requests alone (language models: up to rounding).
        build: Makes agent and environment in each process, if they cannot be sent there
            themselves.
        options: Options the agent was made with, for the record.
        params: Difficulty over the environment's: ``{"noise": 0.3}``. ``hops``, ``branches`` and
            ``blur`` leave tasks out, as they do at a reset.

    On Ctrl-C the finished questions are kept: the result says ``complete=False``. Where none has
    finished the interrupt goes on to the caller.

    Raises:
        EvaluationError: no tasks, what is no task, a task that occurs twice, a number that cannot
            be, ``out`` holds another run, or a worker failed.
        DataError: the recorded trajectories are broken.
        EvaluationError: the environment's curriculum adapts to results.
        CardError: no agent, ``params`` that cannot act here, or actions that are no texts.
        EpisodeError: the agent returned something besides texts.
    """
    for number, value, least in (("seed", seed, 0), ("batch", batch, 1), ("workers", workers, 1)):
        check_whole(number, value, least, error=EvaluationError)
    env = search_env(env, stepped=True)
    env.params.update(number_table("params", params))
    enabled = env.search_enabled
    if search_enabled is not None:
        enabled = checked_switch("search_enabled", search_enabled)
    if inspect.isclass(agent) and hasattr(agent, "act"):
        raise CardError(
            f"the agent is the class {agent.__name__}; give an object: {agent.__name__}()"
        )
    if not isinstance(agent, Agent):
        agent = FunctionAgent(agent)
    chosen = list(env.tasks if tasks is None else tasks)
    for task in chosen:
        if not isinstance(task, Task):
            raise EvaluationError(
                f"tasks are Task objects, got {type(task).__name__}: {task!r:.80}; "
                "env.unwrapped.task(id) gives the one of an id"
            )
    if not chosen:
        raise EvaluationError("there are no tasks to evaluate on")
    chosen = tasks_within(env, chosen)
    if len({task.id for task in chosen}) != len(chosen):
        raise EvaluationError("a task occurs twice; every question is asked once")
    questions = questions_of(env, chosen)
    settings = settings_of(agent, env, chosen, search_enabled=enabled, batch=batch, options=options)
    env = fixed(env)
    result = EvalResult(
        name or type(agent).__name__, label or env.corpus.name, (), settings, seed, False
    )
    if out is None:
        rows: dict[str, Row] = {}
        return _played(result, agent, env, questions, rows, None, progress, workers, build)
    path = Path(out)
    if fresh:
        discard(path)
    stored = finished(path, result)
    if stored is not None and not (retry_lost and stored.infra_errors):
        if progress is not None:
            progress(len(chosen))
        return stored
    how = {
        "dialect": get_dialect(env.rules.dialect),
        "reward": env.rules.reward,
        "reward_transforms": env.reward_transforms,
    }
    with Journal(trajectories_of(path), **how) as journal:
        journal.check(chosen)
        if retry_lost:
            journal.forget([k for k, row in journal.rows.items() if row.infra_error])
        # a continuation can tell that it is this run, and what is there stays readable
        known = tuple(journal.rows[t.id] for t in chosen if t.id in journal.rows)
        replace(result, rows=known).save(path)
        if len(known) < len(chosen):
            note_machine(path.parent)
        if progress is not None:
            progress(len(journal.rows))
        played = _played(
            result, agent, env, questions, journal.rows, journal, progress, workers, build
        )
        if played.complete:
            journal.sort([task.id for task in chosen])
        played.save(path)
    return played


def _played(
    result: EvalResult,
    agent: Agent,
    env: SearchEnv,
    questions: Sequence[Question],
    rows: dict[str, Row],
    journal: Journal | None,
    progress: Callable[[int], object] | None,
    workers: int,
    build: Build | None,
) -> EvalResult:
    started = time.perf_counter()
    todo = [(task, params) for task, params in questions if task.id not in rows]
    how = How(
        result.seed, result.settings["search_enabled"], result.settings["batch"],
        record=journal is not None,
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
            made = build or Here(agent, env)
            usage = play_in_processes(made, todo, how, workers, ended)
        elif todo:
            play(agent, env, todo, how, ended)
    except KeyboardInterrupt:
        if not rows:
            raise
    for kind, n in usage_of(agent).items():
        usage[kind] = usage.get(kind, 0.0) + n - before.get(kind, 0.0)
    return replace(
        result,
        rows=tuple(rows[task.id] for task, _ in questions if task.id in rows),
        complete=all(task.id in rows for task, _ in questions),
        duration_s=time.perf_counter() - started,
        usage=usage,
    )


@dataclass(frozen=True)
class Here:
    """An agent and an environment as they are, for other processes; if both pickle."""

    agent: Agent
    env: SearchEnv

    def __call__(self) -> tuple[Agent, SearchEnv]:
        return self.agent, self.env


def settings_of(
    agent: Agent,
    env: SearchEnv,
    tasks: Sequence[Task],
    *,
    search_enabled: bool,
    batch: int,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the settings that influence the result, as JSON values.

    Corpus and its digest, engine (with its encoder), k, budgets, dialect, instructions, which
    questions, whether search was on, how the answer is read and scored, who counts tokens, the
    agent with its options, fingerprint and sampling (temperature, tokens per turn), package
    versions.
    """
    first = episode_for(env, tasks[0], 0, search_enabled).requests()[0].segments
    told = [segment.text for segment in first if segment.kind == "instructions"]
    return {
        "environment": {  # the reward stands in the rules
            k: _plain(v) for k, v in sorted(env.setup.keywords.items()) if k != "reward"
        },
        **_beyond_keywords(env),
        "corpus": {
            "name": env.corpus.name,
            "passages": len(env.corpus),
            "digest": env.corpus.digest,
        },
        "engine": env.engine.fingerprint,
        "rules": env.rules.to_json(),
        "instructions": value_digest(told),
        "questions": {"count": len(tasks), "digest": asked_digest(tasks)},
        "search_enabled": search_enabled,
        "scoring": dict(SCORING),
        "tokens": own_counter(agent) or env.rules.token_counter,
        "agent": {
            "class": f"{type(agent).__module__}:{type(agent).__qualname__}",
            "options": _plain(dict(options or {})),
            "fingerprint": _plain(getattr(agent, "fingerprint", None)),
            "sampling": _sampling(agent),
            "prompt": _plain(getattr(agent, "prompt_format", None)),
            **_own(agent),
        },
        "batch": batch,
        "versions": versions(),
    }


def _beyond_keywords(env: SearchEnv) -> dict[str, Any]:
    """Further changes an environment makes, if any: class, ``params``, curriculum and the
    effects of wrappers."""
    kind = type(env)
    changed = {
        "class": None if kind.__module__.startswith("searchgym.envs.") else _qualified(kind),
        "params": env.params,
        "curriculum": None if isinstance(env.curriculum, Uniform) else _described(env.curriculum),
        "time_limit": env.time_limit,
        "reward_transforms": [name_of(function) for function in env.reward_transforms],
        "wrappers": [_qualified(layer) for layer in getattr(env, "layers", ())],
        "sources": own_code(env),
    }
    return {name: _plain(value) for name, value in changed.items() if value}


def _qualified(of: Any) -> str:
    kind = of if inspect.isclass(of) else type(of)
    return f"{kind.__module__}:{kind.__qualname__}"


def _own(agent: Agent) -> dict[str, Any]:
    """Digests of an agent's code, where it is not ours; and, where the agent has no fingerprint,
    the plain arguments of its constructor that it keeps by their names."""
    plain = (str, int, float, bool, list, tuple, dict, type(None))
    made: dict[str, Any] = {}
    if getattr(agent, "fingerprint", None) is None:
        for name, parameter in inspect.signature(type(agent)).parameters.items():
            kept = getattr(agent, name, parameter.default)
            if isinstance(kept, plain) and kept != parameter.default:
                made[name] = _plain(kept)
    code = own_sources(getattr(agent, "function", agent))
    return {name: value for name, value in (("made", made), ("sources", code)) if value}


def _described(curriculum: Any) -> list[Any]:
    return [type(curriculum).__name__, curriculum.state_dict(), dict(curriculum.params())]


def asked_digest(tasks: Sequence[Task]) -> str:
    """Return the digest of questions and their accepted answers, in order."""
    return value_digest([[task.id, task.question, task.answers] for task in tasks])


def _sampling(agent: Agent) -> Any:
    sampling: Any = getattr(agent, "sampling", None)
    return _plain(sampling._asdict() if hasattr(sampling, "_asdict") else sampling)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and len(value) <= 50:
        return [_plain(v) for v in value]
    if isinstance(value, (list, tuple)):
        return f"{len(value)} × {type(value[0]).__name__}"
    return f"{type(value).__name__} {getattr(value, 'name', '')}".strip()
