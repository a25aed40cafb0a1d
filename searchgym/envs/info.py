"""Contents of ``info``: no answer or evidence id before the end, and never a clock.

The infos of many environments become one as by Gymnasium's ``VectorEnv._add_info``, but column by
column: at a thousand slots the per-item version costs as much as the search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from ..core.episode import Episode
from ..types import ToolResult

UNLIMITED = -1


@lru_cache(maxsize=1 << 16)
def public_id(question: str) -> str:
    """Name of a task before its episode ends: a digest of the question, which is shown anyway. Its
    own id may tell the family, and thus whether there is an answer."""
    return f"q-{sha256(question.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def step_info(episode: Episode) -> dict[str, Any]:
    """The public state of an episode after ``reset`` or ``step``.

    Keys: ``episode_id``, ``task_id`` (:func:`public_id`; ``reset`` takes it, too), ``turn``
    (actions taken), ``turns_left``, ``queries`` (run so far), ``queries_left`` (-1: unlimited),
    ``context`` and ``role`` of whose turn it is, ``delta`` (what the environment just wrote),
    ``action`` (kind of the last action; for a call also ``tool``), ``valid``, ``hits`` (passage ids
    it returned), ``reward_parts`` (before the end those that the action tells or the turn was paid
    for; a weight of 0 shows nothing of gold passages). Where there is something to tell:
    ``params`` (the difficulty, as far as it was set), ``retries`` (failed calls tried again, so
    far), ``cost`` (of the last action's calls), ``degraded`` (what was done to its results: by a
    degraded engine, or the axis ``distractors``), ``simulated`` ("useful", "noisy" or "unrelated",
    of each search that a simulated engine answered). At the end also ``outcome``.
    """
    turns, config, contexts = episode.turns, episode.config, episode.contexts
    left, active = episode.queries_left, contexts.active
    info: dict[str, Any] = {
        "episode_id": config.episode_id,
        "task_id": public_id(config.task.question),
        "turn": len(turns),
        "turns_left": episode.turns_left,
        "queries": episode.queries,
        "queries_left": UNLIMITED if left is None else left,
        "context": active,
        "role": contexts.role(active),
        "delta": episode.delta,
    }
    if turns:
        last = turns[-1]
        info["action"] = type(last.action).__name__
        info["valid"] = info["action"] != "Invalid"
        if info["action"] == "Call":
            info["tool"] = last.action.tool  # type: ignore[union-attr]
        results = last.results
        if len(results) == 1 and type(results[0]) is ToolResult:  # the usual case, twice as fast
            info["hits"] = tuple([hit[0][0] for hit in results[0].hits])
        else:
            info["hits"] = tuple(
                [hit[0][0] for result in results for hit in getattr(result, "hits", ())]
            )
        info["reward_parts"] = episode.public_parts
        for result in results:
            if type(result) is ToolResult and (result.meta or result.cost):
                _tell(info, result)
    if config.params:
        info["params"] = dict(config.params)
    if episode.retries:
        info["retries"] = episode.retries
    if episode.phase == "done":
        info["outcome"] = outcome_info(episode)
    return info


def _tell(info: dict[str, Any], result: ToolResult) -> None:
    """Add a result's cost and degradations to those of the action's other results."""
    if result.cost:
        info["cost"] = info.get("cost", 0.0) + result.cost
    if kind := result.meta.get("simulated"):
        info["simulated"] = (*info.get("simulated", ()), kind)
    if done := result.meta.get("degraded"):
        degradations = info.setdefault("degraded", {})
        for kind, what in done.items():  # lists of ids and records add up, so do seconds
            degradations[kind] = degradations[kind] + what if kind in degradations else what


def outcome_info(episode: Episode) -> dict[str, Any]:
    """Measures of an ended episode; only here are the task's own id, its family, the answers and
    the evidence shown.

    All of ``Outcome.parts``: the same keys however it ended. ``evidence_recall`` is left out where
    it is NaN (self-search, tasks without gold passages): infos are compared, and NaN equals not
    even itself.
    """
    task, parts = episode.config.task, episode.parts
    assert parts is not None
    info = {
        "end": episode.end,
        "answer": episode.answer,
        **parts,
        "infra_error": episode.end == "infra_error",
        "return": sum([turn.reward for turn in episode.turns]),
        "task_id": task.id,
        "answers": task.answers,
        "evidence": task.evidence,
        "family": task.family,
    }
    if math.isnan(parts["evidence_recall"]):
        del info["evidence_recall"]
    return info


# --- many of them -------------------------------------------------------------------------------
def stack_infos(infos: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Columns of ``infos`` by key, each beside a ``_key`` mask of who has it.

    Integers, floats and booleans become numeric arrays (of floats where any is one); nested dicts
    nest; the rest are object arrays with ``None`` where absent.
    """
    n = len(infos)
    keys: dict[str, None] = {}
    shapes: set[tuple[str, ...]] = set()
    for info in infos:
        if info is not None and (shape := tuple(info)) not in shapes:
            shapes.add(shape)
            keys.update(dict.fromkeys(shape))
    complete = len(shapes) == 1 and all(info is not None for info in infos)
    out: dict[str, Any] = {}
    for key in keys:
        if complete:
            values: list[Any] = [info[key] for info in infos]  # type: ignore[index]
            mask = np.ones(n, dtype=np.bool_)
        else:
            values = [None if info is None else info.get(key, _ABSENT) for info in infos]
            mask = np.array(
                [v is not _ABSENT and i is not None for v, i in zip(values, infos, strict=True)]
            )
            values = [None if v is _ABSENT else v for v in values]
        out[key], out[f"_{key}"] = _column(key, values, mask), mask
    return out


_ABSENT = object()


def _column(key: str, values: list[Any], mask: Any) -> Any:
    first = next(v for v, there in zip(values, mask, strict=True) if there)
    if isinstance(first, dict) and key != "final_obs":
        return stack_infos([v if isinstance(v, dict) else None for v in values])
    if type(first) in (int, float, bool) or isinstance(first, np.number):
        absent = type(first)()
        # no dtype of the first's: beside 0, a share of 0.25 must not become 0
        return np.array([absent if v is None else v for v in values])
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
