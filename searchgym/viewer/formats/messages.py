"""Chat messages, cut into turns: what the assistant said, and what came back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...storage.files import parse_json
from ..record import Observation, ViewedTurn
from .tagged import hits_of, turn_of

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
