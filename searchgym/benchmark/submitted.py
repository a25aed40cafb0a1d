"""Checks a result file that somebody else made, from its episodes and by playing them again.

A result file says what an agent scored; its trajectories, ``<name>.trajectories.jsonl`` beside it,
say what the agent did. Everything a leaderboard states follows from the two:

1. the means and intervals in the file are those of its rows;
2. each trajectory, replayed from its own log, gives the row in the file;
3. the environment, built here from the settings in the file, has the same corpus, questions and
   rules, and the recorded actions, played in it, earn the same: no result page was invented.

The third step needs the environment's data, and an engine that answers alike twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.trajectory import Trajectory, read_jsonl
from ..envs.search import SearchEnv
from ..errors import EvaluationError, SearchGymError
from ..evaluation.comparable import differing, told
from ..evaluation.journal import trajectories_of
from ..evaluation.metrics import Row, row_of
from ..evaluation.result import EvalResult
from ..evaluation.run import evaluate, settings_of
from ..rewards.reward import Reward
from ..scoring import SCORING_VERSION
from ..types import Task, TurnRequest
from ..utils.trust import registered_only

_TOOK = ("tokens_in", "tokens_out", "cost", "overflowed", "length_cut", "judge", "retries")
"""Columns that an agent, its server or a judge reports: they cannot be recomputed."""
_OWN = ("agent", "batch", "tokens", "versions", "judge", "environment", "questions",
        "scoring")  # fmt: skip
"""Settings that describe the agent or the machine, or are checked apart."""


class Checked(NamedTuple):
    """Outcome of checking a file: what was found right, what is wrong, what could not be tried."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    untried: tuple[str, ...]


class _Recorded:
    """An agent that repeats the recorded texts."""

    def __init__(self, played: Sequence[Trajectory]) -> None:
        self._texts = {t.id: [str(turn["text"]) for turn in t.turns] for t in played}

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        out = []
        for request in requests:
            texts = self._texts.get(request.episode_id, [])
            out.append(texts[request.turn] if request.turn < len(texts) else "")
        return out


def check_result(path: Path, *, rebuild: bool = True, trust: bool = False) -> Checked:
    """Check a result file with its trajectories.

    Args:
        path: The result's file, as ``searchgym eval … --out`` writes it.
        rebuild: Whether to build the environment and play the actions in it again.
        trust: Import and run what the files name by import path, such as an own reward.

    Raises:
        EvaluationError: not a result file of this version.
    """
    result = EvalResult.load(path)
    right: list[str] = []
    wrong: list[str] = []
    untried: list[str] = []
    wrong += _of_the_file(path, result)
    if not wrong:
        right.append(f"means and intervals follow from the {len(result.rows)} rows")
    episodes = trajectories_of(path)
    if not episodes.is_file():
        wrong.append(f"{episodes.name} is missing: without its episodes a score cannot be checked")
        return Checked(tuple(right), tuple(wrong), tuple(untried))
    played = list(read_jsonl(episodes))
    if bad := _replayed(path, result, played, trust):
        wrong += bad
    else:
        right.append(f"all {len(played)} trajectories, replayed, give these rows")
    if not rebuild:
        untried.append("the environment was not built")
    elif not wrong:
        try:
            with registered_only(path, trust=trust):
                env = _environment(result, trust)
                bad = _played_again(env, result, played)
        except (SearchGymError, TypeError, ValueError) as error:
            untried.append(f"playing the actions in the environment: {error}")
        else:
            wrong += bad
            if not bad:
                right.append("the recorded actions, played in the environment built here, earn it")
    return Checked(tuple(right), tuple(wrong), tuple(untried))


def _of_the_file(path: Path, result: EvalResult) -> list[str]:
    """Contradictions within the file."""
    wrong = []
    stated = json.loads(path.read_text(encoding="utf-8")).get("means", {})
    for name, interval in result.means.items():
        for part in ("mean", "low", "high", "n"):
            value, said = getattr(interval, part), stated.get(name, {}).get(part)
            if not _same(value, math.nan if said is None else said):
                wrong.append(f"{name}: {part} {said} is stated, the rows give {value:.6g}")
    if not result.complete:
        wrong.append("the run was interrupted: the same command goes on with it")
    if len({row.task_id for row in result.rows}) < len(result.rows):
        wrong.append("a question occurs twice")
    count = result.settings.get("questions", {}).get("count")
    if count != len(result.rows):
        wrong.append(f"{count} questions were to be asked, {len(result.rows)} have a row")
    if result.scoring_version != SCORING_VERSION:
        wrong.append(
            f"scored by version {result.scoring_version} of the scoring, this is {SCORING_VERSION}"
        )
    return wrong


def _replayed(
    path: Path, result: EvalResult, played: Sequence[Trajectory], trust: bool
) -> list[str]:
    """Rows of the file that its own episodes do not give."""
    rows = {row.task_id: row for row in result.rows}
    wrong = []
    if [t.task_id for t in played] != [row.task_id for row in result.rows]:
        wrong.append(f"{len(played)} episodes for {len(rows)} rows, or other questions")
    for trajectory in played:
        if trajectory.task_id not in rows:
            continue
        with registered_only(path, trust=trust):
            row = row_of(trajectory.replay(trust=trust), trajectory.usage)
        if name := _differs(rows[trajectory.task_id], row, ("judge",)):
            there, here = getattr(rows[trajectory.task_id], name), getattr(row, name)
            wrong.append(f"{trajectory.task_id}: {name} {there!r} is stated, replayed {here!r}")
    return wrong


def _environment(result: EvalResult, trust: bool) -> SearchEnv:
    """The environment of a result, from the keywords in its settings."""
    unusual = [k for k in ("class", "curriculum", "time_limit", "reward_transforms")
               if result.settings.get(k)]  # fmt: skip
    if unusual:
        raise EvaluationError(f"it has a {unusual[0]} of its own")
    keywords = dict(result.settings["environment"])
    keywords.pop("data_dir", None)
    reward = Reward.from_json(result.settings["rules"]["reward"], trust=trust)
    env = SearchEnv(**keywords, reward=reward)
    env.params.update(result.settings.get("params", {}))
    return env


def _played_again(env: SearchEnv, result: EvalResult, played: Sequence[Trajectory]) -> list[str]:
    """Differences of the environment, and of what the recorded actions earn in it."""
    known = {task.id: task for task in env.tasks}
    strange = [row.task_id for row in result.rows if row.task_id not in known]
    if strange:
        return [f"{strange[0]!r} and {len(strange) - 1} more are no questions of the environment"]
    tasks: list[Task] = [known[row.task_id] for row in result.rows]
    agent = _Recorded(played)
    enabled = bool(result.settings["search_enabled"])
    here = settings_of(agent, env, tasks, search_enabled=enabled, batch=1)
    wrong = []
    if differs := differing(result.settings, here, _OWN):
        wrong.append(f"the environment built here differs: {told(differs)}")
    if result.settings["questions"]["digest"] != here["questions"]["digest"]:
        wrong.append("questions or accepted answers are not the environment's")
    if wrong:
        return wrong
    again = evaluate(agent, env, tasks=tasks, seed=result.seed, search_enabled=enabled)
    for row, now in zip(result.rows, again.rows, strict=True):
        if not row.infra_error and (name := _differs(row, now, _TOOK)):
            wrong.append(
                f"{row.task_id}: {name} {getattr(row, name)!r} is stated, played again "
                f"{getattr(now, name)!r}"
            )
    return wrong


def _differs(a: Row, b: Row, but: Sequence[str]) -> str:
    """Name of the first column in which two rows differ, or ""."""
    for name in Row._fields:
        if name not in but and not _same(getattr(a, name), getattr(b, name)):
            return name
    return ""


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float | int):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return bool(a == b)
