"""Whether a call's arguments fit its tool: the part of JSON Schema that tools use, and no more."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import CardError, unknown
from .types import Call, ToolSpec

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("a list", (list, tuple)),
    "object": ("an object", (Mapping,)),
    "null": ("null", (type(None),)),
}
_KEYWORDS = frozenset(
    "type enum minimum maximum minLength maxLength items minItems maxItems properties required "
    "additionalProperties description default title examples".split()
)
_VALUES: Mapping[str, str] = {
    **dict.fromkeys(("minimum", "maximum"), "number"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), "integer"),
    **dict.fromkeys(("enum", "required"), "array"),
    "properties": "object",
    "additionalProperties": "boolean",
}
"""What a keyword itself must be."""
OWN_ACTIONS = frozenset({"search", "access"})
"""Tools that are actions of their own; the others are used by a ``Call``."""
_SHOWN = 60


def refusal(tools: Sequence[ToolSpec], call: Call) -> str | None:
    """Why an episode with these tools does not take a call, in words for the agent; ``None`` if it
    does. Searching and opening pages are actions of their own."""
    known = {t.name: t for t in tools if t.name not in OWN_ACTIONS}
    if call.tool not in known:
        return unknown("tool", call.tool[:_SHOWN], known)
    wrong = misfit(known[call.tool].parameters, call.args)
    return None if wrong is None else f"{call.tool}: {wrong}"


def misfit(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Why ``args`` do not fit a tool's ``parameters``, in words for the agent; ``None`` if they do.

    Arguments that the schema does not list are refused unless ``additionalProperties`` is true.
    ``schema`` must have passed :func:`check_schema`.
    """
    return _object(schema, args, "")


def check_schema(schema: Mapping[str, Any], where: str) -> None:
    """``CardError`` for what :func:`misfit` cannot judge, so that nothing goes unchecked."""
    if not isinstance(schema, Mapping):
        raise CardError(f"{where}: a schema is a mapping, got {schema!r:.{_SHOWN}}")
    for key in schema:
        if key not in _KEYWORDS:
            raise CardError(f"{where}: {unknown('keyword of JSON schema', str(key), _KEYWORDS)}")
    kind = schema.get("type")
    if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
        raise CardError(f"{where}: {unknown('type', str(kind), _TYPES)}")
    for key, value in schema.items():
        if key in _VALUES and not _is(_VALUES[key], value):
            raise CardError(f"{where}.{key} must be {_TYPES[_VALUES[key]][0]}, got {_shown(value)}")
    for name, inner in schema.get("properties", {}).items():
        check_schema(inner, f"{where}.{name}")
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]")


def _object(schema: Mapping[str, Any], args: Mapping[str, Any], path: str) -> str | None:
    known: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in args:
            return f"the argument {path + name!r} is missing"
    for name, value in args.items():
        if name in known:
            if (wrong := _value(known[name], value, path + name)) is not None:
                return wrong
        elif schema.get("additionalProperties") is not True:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            return f"there is no argument {(path + name)[:_SHOWN]!r}; {hint}"
    return None


def _value(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    kind = schema.get("type")
    if kind is not None and not _is(kind, value):
        return f"{path!r} must be {_TYPES[kind][0]}, got {_shown(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path!r} must be one of {', '.join(map(str, schema['enum']))}, got {_shown(value)}"
    if isinstance(value, str):
        return _size(schema, len(value), "Length", path, "characters")
    if isinstance(value, int | float) and not isinstance(value, bool):
        for bound, word in (("minimum", "at least"), ("maximum", "at most")):
            limit = schema.get(bound)
            if limit is not None and (value < limit if bound == "minimum" else value > limit):
                return f"{path!r} must be {word} {limit}, got {_shown(value)}"
    if isinstance(value, list | tuple):
        if (wrong := _size(schema, len(value), "Items", path, "items")) is not None:
            return wrong
        inner = schema.get("items", {})
        found = (_value(inner, item, f"{path}[{i}]") for i, item in enumerate(value))
        return next((wrong for wrong in found if wrong is not None), None)
    if isinstance(value, Mapping) and "properties" in schema:
        return _object(schema, value, f"{path}.")
    return None


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[kind][1])


def _size(schema: Mapping[str, Any], size: int, what: str, path: str, unit: str) -> str | None:
    low, high = schema.get(f"min{what}"), schema.get(f"max{what}")
    if low is not None and size < low:
        return f"{path!r} needs at least {low} {unit}, got {size}"
    if high is not None and size > high:
        return f"{path!r} may have at most {high} {unit}, got {size}"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value[:_SHOWN]!r}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else str(value)[:_SHOWN]


def is_number(value: object) -> bool:
    """Whether a value is a finite number (and not a truth value, which Python counts as one)."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and math.isfinite(value)  # type: ignore[arg-type]
