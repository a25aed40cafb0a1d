"""Calls of any tool as JSON, ``{"name": …, "arguments": {…}}``: read, made harmless, written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..errors import DialectError
from ..types import OWN_ACTIONS, Call, Invalid, ToolSpec
from .escape import clean, one_line

OWN_FORM: Final = OWN_ACTIONS | {"answer", "judge", "delegate"}
"""Actions that a dialect writes in a form of its own; never a call."""
NOT_AN_OBJECT = "a tool call holds one JSON object"
NO_ARGUMENTS = 'a tool call has "name" and "arguments"'
_DEEPEST = 8
_SHOWN_NAME = 40
_NAME = re.compile(r"[A-Za-z_][\w.:-]*", re.ASCII)

# Made once: json.loads and json.dumps build a new coder per call when given options.
# strict=False: models write raw line feeds inside strings.
loads = json.JSONDecoder(strict=False).decode
dumps = json.JSONEncoder(ensure_ascii=False).encode


def read_object(text: str) -> tuple[object, dict[str, Any]] | Invalid:
    """(name, arguments) of one JSON call; never raises."""
    try:
        call = loads(text)
        arguments = call.get("arguments", call.get("args")) if isinstance(call, dict) else None
        if isinstance(arguments, str):
            arguments = loads(arguments)
    except (ValueError, RecursionError):
        return Invalid(NOT_AN_OBJECT)
    if not isinstance(call, dict) or not isinstance(arguments, dict):
        return Invalid(NO_ARGUMENTS)
    return call.get("name"), arguments


def call_of(name: object, arguments: Mapping[str, Any]) -> Call | Invalid:
    """The call, its texts cleaned, or why it is none."""
    if not isinstance(name, str):
        return Invalid("the name of a tool is a string")
    name = clean(name).strip()
    if not _NAME.fullmatch(name):
        return Invalid(f"unknown tool {one_line(name)[:_SHOWN_NAME]!r}")
    if name in OWN_FORM:
        return Invalid(f"{name} has a form of its own and is not called like other tools")
    try:
        return Call(name, _tidy(dict(arguments), _DEEPEST))
    except ValueError as error:
        return Invalid(str(error))


def read_call(text: str) -> Call | Invalid:
    """A call from its JSON."""
    pair = read_object(text)
    return pair if isinstance(pair, Invalid) else call_of(*pair)


def canonical_call(call: Call) -> Call:
    """Return what :func:`read_call` reads from :func:`write_call`; ``DialectError`` if no call."""
    if not isinstance(call.args, Mapping):
        raise DialectError(f"a call's arguments are a mapping, got {type(call.args).__name__}")
    parsed = call_of(call.tool, call.args)
    if isinstance(parsed, Invalid):
        raise DialectError(f"{call.tool!r} cannot be called like this: {parsed.reason}")
    return parsed


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """One line of JSON in which no tag can stand: ``<`` is written ``\\u003c``."""
    return dumps({"name": name, "arguments": arguments}).replace("<", "\\u003c")


def call_specs(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools that are used by calls."""
    return [tool for tool in tools if tool.name not in OWN_ACTIONS]


def tool_table(tool: ToolSpec) -> dict[str, Any]:
    """A tool's name, description and parameters, as servers and chat templates take them."""
    parameters = dict(tool.parameters)
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def listed(tools: Iterable[ToolSpec]) -> str:
    """Tools for instructions, a JSON signature per line."""
    return "\n".join(dumps(tool_table(tool)).replace("<", "\\u003c") for tool in tools)


def _tidy(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean(value).strip()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 1 << 63:
            raise ValueError("numbers in arguments must be below 2^63")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("numbers in arguments must be finite")
        return value
    if depth == 0:
        raise ValueError(f"arguments are nested more than {_DEEPEST} deep")
    if isinstance(value, list | tuple):
        return [_tidy(item, depth - 1) for item in value]
    if isinstance(value, Mapping):
        return {clean(str(k)).strip(): _tidy(v, depth - 1) for k, v in value.items()}
    raise ValueError(f"arguments are JSON values, got {type(value).__name__}")
