"""Calls of tools as a person types them: ``sql SELECT …``, ``orders name=Ann Lee city=Oslo``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..types import Call, ToolSpec

_NAMED = re.compile(r"(\w+)\s*:?(?:\s+(.*))?")


def form(tool: ToolSpec) -> str:
    """How a call is typed: ``sql …``, ``orders name=… city=…``, ``notes do=… [text=…]``."""
    fields = tool.parameters.get("properties", {})
    if text_argument(tool) and len(fields) == 1:
        return f"{tool.name} …"
    required = tool.parameters.get("required", ())
    return " ".join([tool.name, *(f"{k}=…" if k in required else f"[{k}=…]" for k in fields)])


def explained(tool: ToolSpec) -> str:
    """What a tool and its arguments are; of a list of tables, each on a line of its own."""
    fields = tool.parameters.get("properties", {}).items()
    said = [f"{name}: {field['description']}" for name, field in fields if "description" in field]
    return "\n".join([tool.description.replace("); ", ");\n"), *said])


def text_argument(tool: ToolSpec) -> str | None:
    """Name of the argument that may be typed without it: a text, all that the tool needs."""
    required = tool.parameters.get("required", ())
    if len(required) != 1:
        return None
    (only,) = required
    return only if tool.parameters["properties"][only].get("type") == "string" else None


def read(line: str, tools: Mapping[str, ToolSpec]) -> Call | None:
    """The call that a line stands for; None where it begins with the name of no tool.

    What stands before the first ``name=`` is the text argument, or is lost: the call then lacks an
    argument, as whoever checks it will say.
    """
    match = _NAMED.fullmatch(line)
    if match is None or (tool := tools.get(match[1])) is None:
        return None
    text, fields = (match[2] or "").strip(), tool.parameters.get("properties", {})
    alone = text_argument(tool)
    key = re.compile(rf"(?:^|\s+)({'|'.join(map(re.escape, fields))})=")
    if alone and text and (len(fields) == 1 or not key.match(text)):
        return Call(tool.name, {alone: text})
    _, *pairs = key.split(text) if fields else [""]
    pairs = [pair.strip() for pair in pairs]
    given = zip(pairs[::2], pairs[1::2], strict=True)
    return Call(tool.name, {name: _value(fields[name], said) for name, said in given})


def write(call: Call, tool: ToolSpec) -> str | None:
    """The line that :func:`read` takes for a call; None where there is no short one."""
    said = {k: v if isinstance(v, str) else json.dumps(v) for k, v in call.args.items()}
    alone = text_argument(tool)
    rest = [said[alone]] if alone and [*said] == [alone] else [f"{k}={v}" for k, v in said.items()]
    line = " ".join([tool.name, *rest])
    return line if read(line, {tool.name: tool}) == call else None


def _value(schema: Mapping[str, Any], text: str) -> Any:
    """An argument: a text, in quotation marks or not, or the JSON value that its schema wants."""
    if schema.get("type") == "string" and not (len(text) > 1 and text[0] == text[-1] == '"'):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
