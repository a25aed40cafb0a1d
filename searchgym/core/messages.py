"""Episodes as chats: messages with roles, calls of tools and their results, and tool schemas.

The form is that of chat templates and OpenAI-compatible servers, so ``tokenizer.
apply_chat_template(chat["messages"], tools=chat["tools"])`` takes it as it is. Where the
environment's dialect is native (``"json_tools+native"``), a policy's call is a ``tool_calls`` entry
and its results are messages of the role "tool"; in every other dialect both are text, the
assistant's and the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from ..dialects.base import Dialect, get_dialect
from ..dialects.calls import loads, tool_table
from ..types import Access, Action, Answer, Call, Search, Segment, ToolSpec, TurnRequest
from .episode import Episode

RESULTS = frozenset({"results", "page", "stub", "missing"})
"""Kinds of segments that a tool's call has led to."""

Message = dict[str, Any]


class Chat(TypedDict):
    """Input of a chat template."""

    messages: list[Message]
    """``{"role": "system" | "user" | "assistant" | "tool", "content": str}``; an assistant's may
    hold ``tool_calls``, a tool's holds ``tool_call_id`` and ``name``."""
    tools: list[dict[str, Any]]
    """``{"type": "function", "function": {"name", "description", "parameters"}}``."""


def schemas(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return tools in the form that chat templates and servers take."""
    return [{"type": "function", "function": tool_table(tool)} for tool in tools]


def messages_of(source: Episode | TurnRequest) -> Chat:
    """Return the visible context of an episode (of a request) as a chat.

    Args:
        source: The request that is to be answered, or an episode, running or over.
    """
    if isinstance(source, Episode):
        context = source.contexts.active
        segments = source.contexts.visible(context)
        dialect = get_dialect(source.config.rules.dialect)
        tools = source.config.rules.tools if source.config.search_enabled else ()
        if source.contexts.role(context) == "planner":
            tools = ()
    else:
        segments, tools = source.segments, source.tools
        dialect = get_dialect(source.dialect)
        tools = () if source.role == "planner" else tools
    native = dialect if getattr(dialect, "native", False) else None
    return Chat(messages=_messages(segments, native), tools=schemas(tools))


def _role(segment: Segment) -> str:
    if segment.author == "policy":
        return "assistant"
    return "system" if segment.kind == "instructions" else "user"


def _messages(segments: Sequence[Segment], native: Dialect | None) -> list[Message]:
    """Texts as they stand, runs of the environment's as one message; in a native dialect calls and
    results stand apart from texts."""
    messages: list[Message] = []
    waiting: list[tuple[str, str]] = []  # id and name of calls without a result yet
    turn = 0
    for segment in segments:
        role = _role(segment)
        if role == "assistant" and native is not None:
            message, waiting = _said(segment, native, turn)
            messages.append(message)
            turn += 1
        elif segment.kind in RESULTS and waiting:
            texts = segment.text.split("\n", len(waiting) - 1)  # a line of JSON each
            for (key, name), text in zip(waiting, texts, strict=False):
                messages.append(
                    {"role": "tool", "tool_call_id": key, "name": name, "content": text}
                )
            waiting = []
        elif messages and messages[-1]["role"] == role != "assistant":
            messages[-1]["content"] += segment.text
        else:
            messages.append({"role": role, "content": segment.text})
    return messages


def _said(segment: Segment, dialect: Dialect, turn: int) -> tuple[Message, list[tuple[str, str]]]:
    """A policy's text as a message, and its calls' ids and names."""
    text = segment.text
    parsed = dialect.parse(text)
    calls = calls_of(parsed.action)
    if not calls:
        return {"role": "assistant", "content": text}, []
    keys = [f"t{turn:03d}c{i:04d}" for i in range(len(calls))]  # nine letters and digits
    uses = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
        for key, (name, arguments) in zip(keys, calls, strict=True)
    ]
    before = text.partition("<tool_call>")[0].strip()
    message = {"role": "assistant", "content": before, "tool_calls": uses}
    return message, list(zip(keys, (name for name, _ in calls), strict=True))


def calls_of(action: Action) -> list[tuple[str, dict[str, Any]]]:
    """Return tools' names and arguments; none for an action that calls no tool."""
    match action:
        case Search(queries):
            return [("search", {"query": query}) for query in queries]
        case Access(url):
            return [("access", {"url": url})]
        case Call(tool, args):
            return [(tool, dict(args))]
        case _:
            return []


def text_of(message: str | Message, dialect: Dialect) -> str:
    """Return an assistant's message as the text that the environment reads: its ``tool_calls`` in
    the dialect's own words, after its content.

    Of several calls all searches count, or the first call of another kind. Arguments that are no
    JSON are left out, which makes the call an invalid action.

    Raises:
        DialectError: The dialect cannot say what is called.
    """
    if isinstance(message, str):
        return message
    content = str(message.get("content") or "")
    uses = message.get("tool_calls") or []
    if not uses:
        return content
    try:
        actions = [_action(use["function"]) for use in uses]
    except (ValueError, AttributeError):
        return content
    queries = tuple(q for a in actions if isinstance(a, Search) for q in a.queries)
    action = Search(queries) if isinstance(actions[0], Search) else actions[0]
    written = dialect.render_action(action)
    return f"{content}\n{written}" if content else written


def _action(function: dict[str, Any]) -> Action:
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        arguments = loads(arguments)
    match function.get("name"):
        case "search":
            return Search((str(arguments.get("query", "")),))
        case "access":
            return Access(str(arguments.get("url", "")))
        case "answer":
            return Answer(str(arguments.get("answer", "")))
        case name:
            return Call(str(name), arguments)
