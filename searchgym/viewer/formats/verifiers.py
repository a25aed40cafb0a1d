"""verifiers: ``results.jsonl``, a rollout a line (prompt, completion, answer, reward, …)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..record import Observation, Record
from .messages import question_of, text_of, turns_of
from .tagged import answer_of

NAME = "verifiers"
_KNOWN = frozenset({"example_id", "id", "reward", "total_ms", "generation_ms", "scoring_ms"})


def fits(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    return {"prompt", "completion", "reward"} <= set(value)


def read(value: Mapping[str, Any]) -> Record:
    """One record."""
    asked, written = value["prompt"], value["completion"]
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    if isinstance(written, str):
        written = [{"role": "assistant", "content": written}]
    prompt, turns = turns_of([*asked, *written])
    gold = value.get("answer") or (value.get("info") or {}).get("answer", "")
    error, reward = value.get("error"), float(value["reward"] or 0.0)
    if error and turns:
        turns[-1].failures.append(text_of(str(error)))
    if turns:
        turns[-1].reward = reward
    number = value.get("example_id", value.get("id", ""))
    return Record(
        id="",
        task=f"{value.get('task') or 'task'}-{number}",
        question=question_of(prompt),
        answers=tuple(map(str, gold)) if isinstance(gold, list) else ((str(gold),) if gold else ()),
        answer=answer_of(turns),
        end="infra_error" if error else "completed",
        reward=reward,
        parts={
            name: float(part)
            for name, part in value.items()
            if name not in _KNOWN and isinstance(part, (int, float))
        },
        family=str(value.get("task") or ""),
        prompt=[Observation(*o) for o in prompt],
        turns=turns,
        facts={"seconds": f"{value['total_ms'] / 1e3:.1f}"} if value.get("total_ms") else {},
    )
