"""Parts from their specs: names, import paths, tables, weights, functions, lists."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from typing import Any

from ..errors import CardError
from ..objects import from_spec, is_number
from .outcome import MEASURES
from .part import GATE, KIND, Part
from .registry import (
    REWARDS,
    declared,
    definition,
    fields_of,
    is_json,
    path_of,
    registered,
    source_digest,
    told,
)


def parts_of(spec: Any) -> Iterable[Part]:
    """The parts that a specification names, in its order."""
    if isinstance(spec, Mapping) and "use" not in spec:
        return [_weighted(key, value) for key, value in spec.items()]
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return [part for item in spec for part in parts_of(item)]
    if isinstance(given := getattr(spec, "parts", None), tuple):  # a reward
        return given
    if spec is None or isinstance(spec, (bool, int, float)):
        raise CardError(
            f"a reward is a part's name, an import path, a function, a list of these or a table "
            f"of weights, got {spec!r}"
        )
    return [make_part(spec)]


def _weighted(key: Any, value: Any) -> Part:
    """A part of a table of weights: name or object, and weight, table or object."""
    if isinstance(value, Mapping):
        if not isinstance(key, str) or ":" in key:
            return make_part({"use": key, **value})
        return make_part({"use": key, **value}, name=key)
    if isinstance(key, str) and ":" not in key:
        if callable(value) or hasattr(value, "turn") or hasattr(value, "final"):
            return make_part(value, name=key)
        if isinstance(value, str) and ":" in value:
            return make_part(value, name=key)
        return make_part(key, _weight(value, key))
    return make_part(key, _weight(value, key))


def _weight(value: Any, key: Any) -> Any:
    if value is None:
        raise CardError(f"the weight of {KIND} {key!r} is a number or {GATE!r}, got None")
    return value


def make_part(spec: Any, weight: Any = None, name: str | None = None) -> Part:
    """A part from a name, an import path, a table ``{"use": either, …}`` or an object.

    A table's ``weight`` is a number or ``"gate"``, its ``name`` what the part is called, its
    ``digest`` what the source must have; the rest are options of the object.

    Raises:
        CardError: an unknown name or option, a weight that is none, a name that is taken, another
            source, or an object that measures nothing.
    """
    options: dict[str, Any] = {}
    digest = None
    if isinstance(spec, Mapping):
        options = {str(key): value for key, value in spec.items() if key != "use"}
        if "use" not in spec:
            raise CardError(f"a {KIND}'s table needs 'use', got {sorted(map(str, spec))}")
        spec = spec["use"]
        name = options.pop("name", name)
        digest = options.pop("digest", None)
        given = options.pop("weight", None)
        weight = given if weight is None else weight
    obj, use, options = _resolved(spec, options)
    if not (callable(obj) or hasattr(obj, "turn") or hasattr(obj, "final")):
        raise CardError(
            f"{told(obj)} is no {KIND}: it is neither callable nor has it a method turn or final "
            "(see searchgym.rewards.RewardPart)"
        )
    name = name or _name(obj, use)
    if not isinstance(name, str):
        raise CardError(f"a {KIND}'s name is a string, got {name!r}")
    if "." in name:
        raise CardError(f"a {KIND}'s name has no dot, got {name!r}")
    if use != name and (name in MEASURES or name in REWARDS):  # it means something else already
        raise CardError(
            f"the name {name!r} of the {KIND} {use or told(obj)} is taken by a built-in measure; "
            "give it another: {'another': {'use': …, 'weight': 1}}"
        )
    gates = weight == GATE or bool(declared(obj, "gates"))
    if gates and weight not in (None, GATE):
        raise CardError(f"the {KIND} {name!r} is a gate: its weight is 'gate', got {weight!r}")
    if not gates and not is_number(1.0 if weight is None else weight):
        raise CardError(f"the weight of {KIND} {name!r} is a number or 'gate', got {weight!r}")
    number = 1.0 if gates or weight is None else float(weight)
    source = "" if use in REWARDS else source_digest(obj)
    part = Part(name, obj, number, gates, use, options, source)
    if digest is not None:
        check_digest(part, digest)
    return part


def check_digest(part: Part, digest: Any) -> None:
    """``CardError`` unless a part's source is the one that was recorded."""
    if part.digest != digest:
        raise CardError(
            f"the reward part {part.name!r} ({part.use or told(part.measure)}) is not the one "
            f"that was recorded: its source has changed (digest {digest} then, "
            f"{part.digest or 'none'} now); restore the source"
        )


def _resolved(spec: Any, options: dict[str, Any]) -> tuple[Any, str, dict[str, Any]]:
    """The object, what names it, and its options."""
    if isinstance(spec, str):
        obj = from_spec(KIND, {"use": spec, **options}, REWARDS, functions=True)
        return obj, registered(spec), fields_of(obj, options)
    if inspect.isclass(spec):
        try:
            obj = spec(**options)
            return obj, path_of(spec), fields_of(obj, options)
        except TypeError as error:
            raise CardError(f"{KIND} {told(spec)}: {error}") from error
    if inspect.isfunction(spec):
        return (partial(spec, **options) if options else spec), path_of(spec), options
    if options:
        raise CardError(f"{KIND} {told(spec)} is an object already; it takes no {min(options)!r}")
    if isinstance(spec, partial) and not spec.args:
        return spec, path_of(spec.func), dict(spec.keywords)
    if inspect.ismethod(spec):
        return spec, path_of(spec.__func__), {}
    if is_dataclass(spec) and is_json(values := fields_of(spec, {})):
        return spec, path_of(type(spec)), values
    if hasattr(spec, "__dict__") and not vars(spec) and not hasattr(spec, "__slots__"):
        return spec, path_of(type(spec)), {}
    return spec, "", {}


def _name(made: Any, use: str) -> str:
    name = use.partition(":")[2].rpartition(".")[2] or use
    if not name:
        name = definition(made).__name__
    return "reward" if name == "<lambda>" else name
