"""Checks the arguments of calls against JSON Schema (draft 2020-12), with errors for agents.

``jsonschema`` judges, with validators built once per schema; it is imported at the first call of a
tool that is no search. Stricter than the draft in two points: arguments that a schema does not list
are refused unless it says ``additionalProperties``, and ``2.0`` is no integer.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import CardError, unknown
from ..types import OWN_ACTIONS, Call, ToolSpec

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("a list", (list, tuple)),
    "object": ("an object", (Mapping,)),
    "null": ("null", (type(None),)),
}
_BOUNDS: Mapping[str, str] = {
    "minimum": "{path!r} must be at least {limit}, got {shown}",
    "maximum": "{path!r} must be at most {limit}, got {shown}",
    "minLength": "{path!r} needs at least {limit} characters, got {size}",
    "maxLength": "{path!r} may have at most {limit} characters, got {size}",
    "minItems": "{path!r} needs at least {limit} items, got {size}",
    "maxItems": "{path!r} may have at most {limit} items, got {size}",
}
_COMPOSED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
_SHOWN = 60
_KEPT = 256
"""Validators kept at once."""
_validators: dict[int, tuple[Mapping[str, Any], Validator]] = {}
"""Validators by the schema's identity; the schema is kept too, so that no other takes its place."""


def rejection_reason(tools: Sequence[ToolSpec], call: Call) -> str | None:
    """Explain why an episode with these tools does not take a call, in words for the agent;
    ``None`` if it does. Searching and opening pages are actions of their own."""
    callable_tools = {t.name: t for t in tools if t.name not in OWN_ACTIONS}
    if call.tool not in callable_tools:
        return unknown("tool", call.tool[:_SHOWN], [*(tool.name for tool in tools), "answer"])
    reason = argument_error(callable_tools[call.tool].parameters, call.args)
    return None if reason is None else f"{call.tool}: {reason}"


def argument_error(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Explain why ``args`` do not fit a tool's ``parameters``, in words for the agent; ``None`` if
    they do.

    ``schema`` must have passed :func:`check_schema`.
    """
    cached = _validators.get(id(schema))
    validator = cached[1] if cached is not None else _compiled(schema)
    try:
        errors = list(validator.iter_errors(args))
    except RecursionError:
        return "the arguments are nested too deeply"
    if not errors:
        return None
    order = {name: i for i, name in enumerate(args)}

    def place(error: ValidationError) -> int:
        """Missing arguments first, then by argument, then what is not listed."""
        if error.absolute_path:
            return order[str(error.absolute_path[0])]
        return -1 if error.validator == "required" else len(order)

    return _in_words(min(errors, key=place))


def check_schema(schema: Mapping[str, Any], where: str) -> None:
    """Check that a schema says nothing that :func:`argument_error` would leave unchecked.

    Raises:
        CardError: an unknown keyword or format, a keyword with an impossible value, a ``$ref`` that
            leads nowhere or out of the schema.
    """
    if not isinstance(schema, Mapping):
        raise CardError(f"{where}: a schema is a mapping, got {schema!r:.{_SHOWN}}")
    import referencing
    from referencing.jsonschema import DRAFT202012

    plain = _plain(schema)
    strict = _strict()
    for error in strict.iter_errors(plain):
        place = where + _path(error.absolute_path, first=".")
        if error.validator == "unevaluatedProperties":
            keywords = sorted({*strict.VALIDATORS, *_ANNOTATIONS})
            name = next((key for key in error.instance if key not in keywords), error.instance)
            raise CardError(f"{place}: {unknown('keyword of JSON schema', str(name), keywords)}")
        raise CardError(f"{place}: {error.message[:200]}")
    root = referencing.Registry().resolver_with_root(DRAFT202012.create_resource(plain))
    for target in re.findall(r'"\$ref": "([^"]*)"', json.dumps(plain)):
        try:
            root.lookup(target)
        except referencing.exceptions.Unresolvable:
            raise CardError(f"{where}: $ref {target!r} leads to nothing in the schema") from None


_ANNOTATIONS = ("default", "deprecated", "description", "examples", "title", "$comment", "$defs",
                "readOnly", "writeOnly", "$schema", "then", "else")  # fmt: skip


def _compiled(schema: Mapping[str, Any]) -> Validator:
    import jsonschema
    import referencing

    validator: Validator = _draft()(
        _closed(_plain(schema), top=True),
        registry=referencing.Registry(),  # nothing is fetched
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )
    if len(_validators) >= _KEPT:
        _validators.clear()
    _validators[id(schema)] = schema, validator
    return validator


@cache
def _draft() -> Any:
    """Draft 2020-12 with our types: tuples are lists, 2.0 is no integer, infinity no number."""
    import jsonschema

    base = jsonschema.Draft202012Validator

    def checker(kind: str) -> Any:
        return lambda _, value: _is(kind, value)

    types = base.TYPE_CHECKER.redefine_many({kind: checker(kind) for kind in _TYPES})
    return jsonschema.validators.extend(base, type_checker=types)


@cache
def _strict() -> Any:
    """The draft's own schema without unknown keywords and formats, at any depth."""
    import jsonschema

    base = jsonschema.Draft202012Validator
    return base({
        "$schema": base.META_SCHEMA["$id"],
        "$id": "urn:searchgym:tool-parameters",
        "$dynamicAnchor": "meta",
        "$ref": base.META_SCHEMA["$id"],
        "properties": {
            "format": {"enum": sorted(base.FORMAT_CHECKER.checkers)},
            "$ref": {"pattern": "^#"},
        },
        "unevaluatedProperties": False,
    })  # fmt: skip


def _plain(value: Any) -> Any:
    """Mappings and sequences of any kind as the dicts and lists that ``jsonschema`` reads."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _closed(schema: Any, *, top: bool = False) -> Any:
    """The schema with what it does not list forbidden, in its objects and in theirs."""
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    if "properties" in schema:
        closed["properties"] = {k: _closed(v) for k, v in schema["properties"].items()}
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if _COMPOSED & schema.keys():
        closed.setdefault("unevaluatedProperties", False)
    elif top or "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


def _in_words(error: ValidationError) -> str:
    keyword = str(error.validator)
    value: Any = error.instance
    limit: Any = error.validator_value
    path = _path(error.absolute_path)
    inside = f"{path}." if path else ""
    if keyword == "required":
        missing = next(name for name in limit if name not in value)
        return f"the argument {inside + missing!r} is missing"
    if keyword == "additionalProperties" and limit is False:
        properties: Any = error.schema  # a mapping: only these have this keyword
        listed: dict[str, Any] = properties.get("properties", {})
        name = next(name for name in value if name not in listed)
        near = difflib.get_close_matches(name, listed, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(listed)}"
        return f"there is no argument {(inside + name)[:_SHOWN]!r}; {hint}"
    if keyword == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        return f"{path!r} must be {' or '.join(_TYPES[k][0] for k in kinds)}, got {_shown(value)}"
    if keyword == "enum":
        return f"{path!r} must be one of {', '.join(map(str, limit))}, got {_shown(value)}"
    if keyword in _BOUNDS:
        size = len(value) if isinstance(value, str | list | tuple) else 0
        return _BOUNDS[keyword].format(path=path, limit=limit, shown=_shown(value), size=size)
    return f"{path!r}: {error.message[: 3 * _SHOWN]}" if path else error.message[: 3 * _SHOWN]


def _path(parts: Iterable[str | int], first: str = "") -> str:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)
    return path if first else path.removeprefix(".")


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[kind][1])


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value[:_SHOWN]!r}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else str(value)[:_SHOWN]
