"""Specs of dialects, and the options that an environment's rules need of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..errors import CardError, DialectError
from ..types import Access, Call, Delegate, Judge
from .base import DIALECTS, SELF_SEARCH, Described, Dialect, get_dialect
from .base import import_path as path_of

Reference = str | Mapping[str, Any] | Dialect
"""A name or path with flags; a table where options are more than on or off; and the dialect itself
where neither can say what it is (an object of a class that has no import path)."""
_KINDS: Mapping[str, type] = {"access": Access, "judge": Judge, "delegate": Delegate, "tools": Call}
_OBJECT = "object"
"""Key of the table that stands in a record for a dialect that cannot be written down."""


class _Parts(NamedTuple):
    """A dialect as a name or path and the options it is made with."""

    use: str
    options: Mapping[str, Any]


def reference(spec: Any) -> Reference:
    """Return ``spec`` (as :func:`~searchgym.dialects.base.get_dialect` takes it) as it is recorded.

    Raises:
        DialectError: An unknown name or option, or what is no dialect.
    """
    dialect = get_dialect(spec)
    parts = _parts(spec, dialect)
    return dialect if parts is None else _written(parts, getattr(dialect, "FLAGS", ()))


def to_json(spec: Reference) -> Any:
    """Return JSON values for a reference. A dialect that cannot be written down leaves its class's
    name, which :func:`from_json` explains."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return dict(spec)
    return {_OBJECT: f"{type(spec).__module__}.{type(spec).__qualname__}"}


def from_json(data: Any, dialect: Dialect | None = None) -> Reference:
    """Return the reference of :func:`to_json`.

    Args:
        data: Recorded spec.
        dialect: The object to use where the record could not say which it was.

    Raises:
        DialectError: The record needs an object and none was given.
    """
    if not isinstance(data, Mapping) or _OBJECT not in data:
        return data
    if dialect is None:
        raise DialectError(
            f"this was played under a dialect object of the class {data[_OBJECT]}, which cannot be "
            "found by an import path: pass the object, for example Episode.restore(snapshot, "
            "dialect=…), or move its class into a module and name it 'package.module:Class'"
        )
    return dialect


def with_required_flags(
    spec: Any,
    *,
    tools: Collection[str] = (),
    max_parallel: int = 1,
    judge: bool = False,
    delegate: bool = False,
) -> Reference:
    """Return a dialect's reference with every option switched on that the rules need, so that no
    tool is offered which the policy has no way to call.

    Raises:
        DialectError: ``spec`` is no dialect.
        CardError: The dialect has no words for a tool or for what is asked.
    """
    called = [tool for tool in tools if tool not in ("search", "access")]
    needs = {
        "access": "access" in tools,
        "parallel": max_parallel > 1,
        "judge": judge,
        "delegate": delegate,
        "tools": bool(called),
    }
    dialect = get_dialect(spec)
    flags: tuple[str, ...] = getattr(dialect, "FLAGS", ())
    parts = _parts(spec, dialect)
    lacking = [flag for flag, needed in needs.items() if needed and not _says(dialect, flag, parts)]
    if parts is not None and (new := [flag for flag in lacking if flag in flags]):
        parts = parts._replace(options={**parts.options, **dict.fromkeys(new, True)})
        dialect = get_dialect({"use": parts.use, **parts.options})
        lacking = [flag for flag in lacking if flag not in new]
    for flag in lacking:
        if flag in flags:
            raise CardError(
                f"the dialect object {dialect.name!r} must be made with {flag}=True for this "
                "environment: make it so, or pass its class"
            )
        if flag in _KINDS and _KINDS[flag] not in dialect.renders:
            raise CardError(f"the dialect {dialect.name!r} has no way to say {flag!r}; choose "
                            "another")  # fmt: skip
    sayable: frozenset[str] | None = getattr(dialect, "CALLS", None)
    if sayable is not None and (unsaid := sorted(set(called) - sayable)):
        raise CardError(
            f"the dialect {dialect.name!r} can call {', '.join(sorted(sayable))} only, not "
            f"{unsaid[0]}; use another, for example dialect='json_tools'"
        )
    return dialect if parts is None else _written(parts, flags)


def is_self_search(spec: Any) -> bool:
    """Check whether a dialect lets the policy write its own search results."""
    return bool(getattr(get_dialect(spec), "self_search", False))


def self_search_form(spec: Any) -> Reference:
    """Return the dialect in which a policy writes its own search results: ``spec`` itself if it is
    one, or the form registered for it (its name and ``_self``).

    Raises:
        CardError: There is none.
    """
    dialect = get_dialect(spec)
    if is_self_search(dialect):
        return reference(spec)
    parts = _parts(spec, dialect)
    if parts is None or f"{parts.use}_self" not in SELF_SEARCH:
        known = ", ".join(repr(name.removesuffix("_self")) for name in SELF_SEARCH)
        raise CardError(
            f"the dialect {dialect.name!r} has no self-search form; with engine='self' use "
            f"dialect={known}"
        )
    unused = ("access", "parallel", "tools")
    kept = {name: value for name, value in parts.options.items() if name not in unused}
    return reference({"use": f"{parts.use}_self", **kept})


def _says(dialect: Dialect, flag: str, parts: _Parts | None) -> bool:
    """Check whether a dialect was made to say what a flag stands for."""
    if parts is not None and flag in getattr(dialect, "FLAGS", ()):
        return bool(parts.options.get(flag))
    if flag == "parallel":  # a dialect without this option reads several queries or cannot
        return flag not in getattr(dialect, "FLAGS", ()) or bool(getattr(dialect, flag, False))
    return _KINDS[flag] in dialect.renders


def _parts(spec: Any, dialect: Dialect) -> _Parts | None:
    """Name or path, and options; ``None`` for an object that cannot be written down."""
    if isinstance(spec, str | Mapping):
        table = {"use": spec} if isinstance(spec, str) else dict(spec)
        name, *flags = str(table.pop("use")).split("+")
        return _Parts(name, {**dict.fromkeys(flags, True), **table})
    cls = type(dialect)
    use = next((name for name, where in _registered().items() if where == path_of(cls)), None)
    use = use or path_of(cls)
    if not isinstance(dialect, Described):  # of its options nothing is known, unless it has none
        return _Parts(use, {}) if use and isinstance(spec, type) else None
    if use is None or dialect.options is None:
        return None
    try:
        same = json.loads(json.dumps(dialect.options)) == dict(dialect.options)
    except (TypeError, ValueError):
        return None
    return _Parts(use, dialect.options) if same else None


def _registered() -> dict[str, str]:
    return {**DIALECTS, **SELF_SEARCH}


def _written(parts: _Parts, flags: tuple[str, ...]) -> str | Mapping[str, Any]:
    """The shortest record: flags that are off go, others are appended in the class's order."""
    on = [flag for flag in flags if parts.options.get(flag)]
    rest = {name: value for name, value in sorted(parts.options.items()) if name not in flags}
    name = "+".join([parts.use, *on])
    return {"use": name, **rest} if rest else name
