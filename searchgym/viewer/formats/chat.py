"""OpenAI chat messages, one conversation a line: ``{"messages": […]}`` and what else is known
(``id``, ``answers`` or ``answer``, ``reward``, ``model``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..record import Record
from .messages import question_of, turns_of
from .tagged import answer_of

NAME = "openai_chat"


def fits(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    messages = value.get("messages")
    return isinstance(messages, list) and all(
        isinstance(m, Mapping) and "role" in m for m in messages
    )


def read(value: Mapping[str, Any]) -> Record:
    """One record."""
    prompt, turns = turns_of(value["messages"])
    gold = value.get("answers", value.get("answer", ()))
    reward = value.get("reward", value.get("score"))
    question = question_of(prompt)
    if turns:
        turns[-1].reward = None if reward is None else float(reward)
    last = turns[-1] if turns else None
    return Record(
        id=str(value.get("id", "")),
        task=str(value.get("task_id", question)),
        question=question,
        answers=tuple(map(str, gold)) if isinstance(gold, (list, tuple)) else (str(gold),),
        answer=answer_of(turns),
        # a conversation that ends with a call was cut before its answer
        end="completed" if last is not None and last.action == "Answer" else "max_turns",
        reward=None if reward is None else float(reward),
        agent=str(value.get("model", "")),
        prompt=prompt,
        turns=turns,
    )
