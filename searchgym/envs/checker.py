"""Checker of environments, ours and third parties': spaces, determinism, replay, oracle, leaks.

:func:`check_env` runs Gymnasium's own checker with warnings as errors, then walks episodes and
checks what a search-agent trainer relies on. The first broken promise raises ``CheckError`` and
says what was got, what was expected, and under which seed.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from ..core.episode import Episode
from ..errors import CheckError
from ..seeding import stream
from ..text import normalise_answer
from .registration import vector_form
from .search import SearchEnv

MALFORMED = (
    "", " ", "<search>", "</search>", "<search></search>", "<answer>", "<answer></answer>",
    "<search>a<answer>b</search></answer>", "search:", "answer:", '{"name": "search"}',
    "\x00\ud800", "<tool_call>{</tool_call>", "<" * 2000, "é日本\u202e",
    "<information>Doc 1(Title: x) y</information>",
)  # fmt: skip
"""Texts that are no action in any dialect, or nearly one."""


def check_env(env: gym.Env[Any, Any], *, seeds: int = 5) -> None:
    """Check an environment; raises ``CheckError`` at the first broken promise.

    Every environment: Gymnasium's checker without a warning; two resets with one seed agree,
    ``info`` included. Text environments: any string is a legal action, ``terminated`` and
    ``truncated`` are never both true. ``SearchEnv`` and its subclasses also: nothing leaks before
    it was retrieved, the oracle solves from every state walked through, tools can be disabled, and
    forks, snapshots and replays are exact.
    """
    bare = env.unwrapped
    _gymnasium(env)
    for seed in range(seeds):
        _resets(env, seed)
        if isinstance(env.action_space.sample(), str):
            _any_text(env, seed)
        if isinstance(bare, SearchEnv):
            _no_leaks(bare, seed)
            _oracle(bare, seed)
            _replay(bare, seed)
            _closed_book(bare, seed)


def _fail(promise: str, seed: int, detail: str) -> None:
    raise CheckError(f"{promise} (seed {seed}): {detail}")


def _gymnasium(env: gym.Env[Any, Any]) -> None:
    from ..tasks.build import FewerTasks

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FewerTasks)  # which is no promise of an environment
        # Gymnasium advises against passing a wrapped environment; it is what a user would step.
        try:
            pictures = all(find_spec(name) for name in ("jinja2", "PIL"))  # of the extra "view"
            skip = env.unwrapped.spec is None or not pictures
            gymnasium_check_env(env.unwrapped, skip_render_check=skip)
        except (Warning, AssertionError, ValueError, TypeError) as error:
            raise CheckError(f"Gymnasium's checker: {error}") from error


def _resets(env: gym.Env[Any, Any], seed: int) -> None:
    first, second = env.reset(seed=seed), env.reset(seed=seed)
    if not same(first, second):
        _fail("one seed gives one episode", seed, f"{first!r:.200} then {second!r:.200}")


def same(a: Any, b: Any) -> bool:
    """Deep equality of observations and infos; NaN equals NaN."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype == object or b.dtype == object:
            return a.shape == b.shape and same(a.tolist(), b.tolist())
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b) or (a != a and b != b)


def _any_text(env: gym.Env[Any, Any], seed: int) -> None:
    """Malformed actions are answered, never raised, and the episode ends in time."""
    rng = stream(seed, "check", "malformed")
    for _ in range(3):
        env.reset(seed=seed)
        over, steps = False, 0
        while not over:
            action = MALFORMED[int(rng.integers(len(MALFORMED)))]
            try:
                observation, reward, terminated, truncated, _ = env.step(action)
            except Exception as error:  # whatever it is: a policy's text must never raise
                raise CheckError(
                    f"any string is a legal action (seed {seed}): {action!r:.60} raised {error!r}"
                ) from error
            if observation not in env.observation_space:
                _fail("observations lie in the space", seed, f"{observation!r:.200}")
            if terminated and truncated:
                _fail("terminated and truncated exclude each other", seed, f"after {action!r:.60}")
            if not np.isfinite(float(reward)):
                _fail("rewards are finite", seed, f"{reward} after {action!r:.60}")
            over, steps = bool(terminated or truncated), steps + 1
            if steps > 10_000:
                _fail("episodes end", seed, "10,000 malformed actions and still running")


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for v in value.values() for s in _strings(v)]
    if isinstance(value, (list, tuple)):
        return [s for v in value for s in _strings(v)]
    return []


def _no_leaks(env: SearchEnv, seed: int) -> None:
    """Check that neither answer nor evidence id is shown before anything was retrieved."""
    observation, info = env.reset(seed=seed)
    task = env.episode.config.task
    question = normalise_answer(task.question)
    instructions = normalise_answer(env.episode.contexts.segments[0].text)
    shown = [*_strings(observation), *_strings(info)]
    if task.id in shown or task.family in shown:
        _fail("a task's own id and family are hidden", seed, f"{task.id!r} in {info!r:.200}")
    for text in shown:
        for evidence in task.evidence:
            if evidence in text:
                _fail("evidence ids are hidden", seed, f"{evidence!r} in {text[:200]!r}")
        words = f" {normalise_answer(text)} "
        for answer in task.answers:
            gold = normalise_answer(answer)
            if (
                gold
                and f" {gold} " in words
                and not (f" {gold} " in f" {question} " or f" {gold} " in f" {instructions} ")
            ):
                _fail("answers are hidden", seed, f"{answer!r} in {text[:200]!r}")
    for forbidden in ("answers", "evidence", "outcome"):
        if forbidden in info:
            _fail("info keeps the gold back until the end", seed, f"key {forbidden!r} at reset")


def _oracle(env: SearchEnv, seed: int) -> None:
    """Check that the oracle answers rightly from the start and after a few useless turns."""
    for wasted in (0,) if env.rules.one_search else (0, 1):  # any first turn ends those
        env.reset(seed=seed)
        if env.episode.turns_left < len(env.oracle()) + wasted:
            continue
        for _ in range(wasted):
            env.step("no action at all")
        terminated = truncated = False
        info: dict[str, Any] = {}
        for action in env.oracle():
            if terminated or truncated:
                _fail("the oracle's actions fit the budget", seed, f"ended before {action!r:.80}")
            _, _, terminated, truncated, info = env.step(action)
        outcome = info.get("outcome", {})
        # an environment of one search pays the query's ranking, and there is no answer
        solved = outcome.get("return", 0) > 0 if env.rules.one_search else outcome.get("em") == 1.0
        if not terminated or not solved:
            _fail("the oracle solves the episode", seed, f"{info.get('outcome')}")


def _replay(env: SearchEnv, seed: int) -> None:
    """Forks and snapshots continue exactly like the original."""
    env.reset(seed=seed)
    plan = env.oracle()
    if not env.rules.one_search:  # any first turn ends those
        env.step("no action at all")
    snapshot = json.loads(json.dumps(env.snapshot()))
    twin, restored = env.fork(), copy.copy(env)
    restored.restore(snapshot)
    for action in plan[: env.episode.turns_left]:
        results = [e.step(action) for e in (env, twin, restored)]
        if not (same(results[0], results[1]) and same(results[0], results[2])):
            _fail("forks and snapshots continue alike", seed, f"they differ after {action!r:.80}")
        if env.episode.phase == "done":
            break
    again = Episode.restore(env.snapshot(), reward=env.rules.reward)
    if again.observation() != env.episode.observation():
        _fail("a snapshot replays to the same text", seed, "it does not")


def _closed_book(env: SearchEnv, seed: int) -> None:
    """Check that with tools switched off a search is refused and retrieves nothing."""
    _, info = env.reset(seed=seed, options={"search_enabled": False})
    if info["queries_left"] != 0 or env.requests()[0].tools:
        _fail("search can be disabled per episode", seed, f"info {info!r:.200}")
    searches = [a for a in _searching(env, seed) if a]
    for action in searches[:1]:
        env.reset(seed=seed, options={"search_enabled": False})
        _, _, _, _, info = env.step(action)
        if info["queries"] or info["hits"]:
            _fail("a disabled search runs nothing", seed, f"{action!r:.80} did")


def _searching(env: SearchEnv, seed: int) -> list[str]:
    env.reset(seed=seed)
    return env.oracle()[:-1]


def check_vector_env(env_id: str, *, num_envs: int = 4, steps: int = 12, **keywords: Any) -> None:
    """Check that a vector environment equals as many single ones with the same seeds.

    Walks oracle and malformed actions through resets in every autoreset mode.
    """
    from gymnasium.vector import AutoresetMode

    spec = gym.spec(env_id)
    if spec.vector_entry_point is None:
        made_by = spec.entry_point if isinstance(spec.entry_point, str) else "my_module:MyEnv"
        raise CheckError(
            f"{env_id} is registered without vector_entry_point, so make_vec steps one "
            f"after the other: add vector_entry_point={vector_form(made_by)!r} to gym.register"
        )
    for mode in AutoresetMode:
        vector = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode=mode, **keywords)
        singles = gym.vector.SyncVectorEnv(
            [lambda: gym.make(env_id, **keywords).unwrapped for _ in range(num_envs)],
            autoreset_mode=mode,
        )
        if not same(vector.reset(seed=7), singles.reset(seed=7)):
            _fail("a vector env equals single envs", 7, f"reset differs in mode {mode.name}")
        rng = stream(7, "check", mode.name)
        over = np.zeros(num_envs, dtype=np.bool_)
        for step in range(steps):
            if mode == AutoresetMode.DISABLED and over.any():
                pair = [e.reset(options={"reset_mask": over.copy()}) for e in (vector, singles)]
                if not same(*pair):
                    _fail(
                        "a vector env equals single envs", 7, f"masked reset differs, step {step}"
                    )
            plans = vector.unwrapped.oracle()  # type: ignore[attr-defined]
            actions = tuple(
                plan[0] if plan and rng.random() < 0.8 else MALFORMED[int(rng.integers(8))]
                for plan in plans
            )
            got, expected = vector.step(actions), singles.step(actions)
            if not same(got, expected):
                _fail("a vector env equals single envs", 7, f"step {step} differs in {mode.name}")
            over = got[2] | got[3]
        vector.close()
        singles.close()
