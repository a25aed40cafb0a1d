"""Python methods made from JSON schemas of tools, for frameworks that read methods' signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..types import ToolSpec

_TYPES: dict[str, type] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def methods(
    tools: Sequence[ToolSpec], call: Callable[[Any, str, dict[str, Any]], str]
) -> dict[str, Callable[..., str]]:
    """Return a method for each tool, by name.

    Each has the tool's parameters as its signature and a docstring in Google's style, from which
    frameworks read the schema again.

    Args:
        tools: The tools, with JSON schemas of their arguments.
        call: Function of the object, the tool's name and its arguments, which gives the result.
    """
    return {tool.name: _method(tool, call) for tool in tools}


def _method(tool: ToolSpec, call: Callable[[Any, str, dict[str, Any]], str]) -> Callable[..., str]:
    properties = dict(tool.parameters.get("properties", {}))
    required = set(tool.parameters.get("required", ()))
    types = {name: _TYPES.get(str(schema.get("type")), str) for name, schema in properties.items()}

    def method(self: Any, **arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value is not None}
        return call(self, tool.name, given)

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name in sorted(properties, key=lambda name: name not in required):
        default = inspect.Parameter.empty if name in required else None
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name]
            )
        )
    lines = [
        f"    {name}: {schema.get('description') or name.replace('_', ' ')}"
        for name, schema in properties.items()
    ]
    method.__name__ = method.__qualname__ = tool.name
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {**types, "return": str}
    description = " ".join(tool.description.split()) or tool.name
    method.__doc__ = "\n".join(
        [description, "", *(["Args:", *lines, ""] if lines else []), "Returns:", "    The result."]
    )
    return method
