"""Chat messages, cut into turns: OpenAI's, one conversation a line (``{"messages": […]}``), and
verifiers' ``results.jsonl``, a rollout a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...storage.files import parse_json
from ..record import Observation, Record, ViewedTurn
from .search_r1 import answer_of, hits_of, turn_of

CHAT, VERIFIERS = "openai_chat", "verifiers"
_KNOWN = frozenset({"example_id", "id", "reward", "total_ms", "generation_ms", "scoring_ms"})
_CALLS = {"search": "Search", "access": "Access", "get_document": "Access", "visit": "Access"}


def turns_of(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Observation], list[ViewedTurn]]:
    """Return the observations before the assistant's first message, and the assistant's turns."""
    prompt: list[Observation] = []
    turns: list[ViewedTurn] = []
    for message in messages:
        role, text = str(message["role"]), text_of(message.get("content"))
        if role == "assistant":
            turns.append(said(len(turns), message))
        elif turns:
            turns[-1].observations.append(Observation(role, text))
            turns[-1].hits += hits_of(text)
        else:
            prompt.append(Observation(role, text))
    return prompt, turns


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or parts of which some are texts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(
        str(part.get("text", f"[{part.get('type', 'part')}]"))
        if isinstance(part, Mapping)
        else str(part)
        for part in content
    )


def question_of(prompt: Sequence[Observation]) -> str:
    """The last message of the user before the assistant speaks; without its instructions, where a
    line says which part is the question."""
    asked = next((o.text for o in reversed(prompt) if o.kind == "user"), "")
    return asked.rpartition("Question:")[2].strip() or asked


def said(number: int, message: Mapping[str, Any]) -> ViewedTurn:
    """The turn of one message of the assistant."""
    text = text_of(message.get("content"))
    thought = text_of(message.get("reasoning_content"))
    whole = f"<think>{thought}</think>\n{text}" if thought else text
    calls = [_call(c) for c in message.get("tool_calls") or ()]
    if calls:
        names = tuple(dict.fromkeys(name for name, _ in calls))
        kind = _CALLS.get(names[0], "Call")
        detail = "; ".join(_short(kind, name, arguments) for name, arguments in calls)
        asked = "\n".join(f"{name}({arguments})" for name, arguments in calls)
        return ViewedTurn(number, f"{whole}\n{asked}".strip(), kind, detail, tools=names)
    made = turn_of(number, whole)
    # without tags or calls, a message to the user is the answer
    return made if made.action != "Invalid" else ViewedTurn(number, whole, "Answer", text.strip())


def _call(call: Any) -> tuple[str, str]:
    if isinstance(call, str):  # verifiers writes each call as a JSON text
        call = parse_json(call, "a call")
    function = call.get("function", call)
    arguments = function.get("arguments", "")
    return str(function.get("name", "")), (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    )


def _short(kind: str, name: str, arguments: str) -> str:
    try:
        values = parse_json(arguments, "its arguments")
    except ValueError:
        return arguments
    if not isinstance(values, dict):
        return arguments
    told = ", ".join(str(v) for v in values.values())
    return told if kind != "Call" else f"{name}: {told}"


def is_chat(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    messages = value.get("messages")
    return isinstance(messages, list) and all(
        isinstance(m, Mapping) and "role" in m for m in messages
    )


def read_chat(value: Mapping[str, Any]) -> Record:
    """One conversation, and what else is known: ``id``, ``answers`` or ``answer``, ``reward``,
    ``model``."""
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


def is_rollout(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    return {"prompt", "completion", "reward"} <= set(value)


def read_rollout(value: Mapping[str, Any]) -> Record:
    """A line of ``results.jsonl``: prompt, completion, answer, reward, …"""
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
