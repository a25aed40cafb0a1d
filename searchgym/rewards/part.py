"""One part of a reward: what measures it, under which name, with which weight, and where it is
from."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, overload

from ..arguments import is_number
from ..errors import CardError
from ..objects import from_spec
from .outcome import MEASURES, Outcome
from .registry import FINAL, REWARDS, TURN

GATE: Literal["gate"] = "gate"
"""The weight of a part that multiplies the others instead of being added to them."""
RESERVED = frozenset({*REWARDS, *MEASURES})
"""Names that mean something else already."""
KIND = "reward part"
_F = TypeVar("_F", bound=Callable[..., Any])


class RewardPart(Protocol):
    """A reward part of more than one function. Either method may be missing.

    The same object serves all episodes, their forks and their replays, so it keeps nothing between
    calls. ``gates = True`` in the class makes its weight ``"gate"``.
    """

    def turn(self, outcome: Outcome, /) -> float:
        """Measure the latest turn; called after every turn, the last one included."""
        ...

    def final(self, outcome: Outcome, /) -> float:
        """Measure the whole episode; called once, when it is over."""
        ...


@overload
def per_turn(first: type, /, *others: type) -> Callable[[_F], _F]: ...
@overload
def per_turn(first: _F, /) -> _F: ...
def per_turn(first: Any, /, *others: type) -> Any:
    """Declare that a function is called after every turn, not once at the end.

    ``@per_turn(Search, Access)`` names the kinds of actions (``searchgym.types``) after which it is
    called; its value is 0 after others.
    """
    if not inspect.isclass(first):
        first.per_turn = ()
        return first

    def declare(function: _F) -> _F:
        function.per_turn = (first, *others)  # type: ignore[attr-defined]
        return function

    return declare


def gate(function: _F) -> _F:
    """Declare that a part multiplies the others: ``@gate`` before a function or a class.

    A final gate multiplies all that the episode earns, which is paid at its end: turns before it
    get 0. A gate of turns multiplies what the parts of the same turn earn.
    """
    function.gates = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A reward part. Equal parts measure the same with the same weight."""

    name: str
    measure: Any
    """A function of an outcome, or an object with the methods of :class:`RewardPart`."""
    weight: float = 1.0
    """Unused in a gate."""
    gates: bool = False
    use: str = ""
    """Name in the registry or import path; ``""``: neither leads to it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """Of its source, as it was when the part was made; ``""`` for what is registered, and where
    there is no source."""

    @property
    def on_turn(self) -> Callable[[Outcome], Any] | None:
        """What is called after every turn."""
        if hasattr(self.measure, "turn") or hasattr(self.measure, "final"):
            turn: Callable[[Outcome], Any] | None = getattr(self.measure, "turn", None)
            return turn
        return None if self.after is None else self.measure

    @property
    def on_end(self) -> Callable[[Outcome], Any] | None:
        """What is called at the end."""
        if hasattr(self.measure, "turn") or hasattr(self.measure, "final"):
            final: Callable[[Outcome], Any] | None = getattr(self.measure, "final", None)
            return final
        return self.measure if self.after is None else None

    @property
    def after(self) -> tuple[type, ...] | None:
        """Kinds of actions after which a function of turns is called; ``()``: all. ``None``: it is
        not one."""
        return _declared(self.measure, "per_turn")

    @property
    def registered(self) -> bool:
        return self.use in REWARDS

    @property
    def standard(self) -> bool:
        """Whether it is one of the parts that every episode measures, under its own name."""
        return self.use == self.name and self.name in (*TURN, *FINAL) and not self.options

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((self.name, self.use))

    def _compared(self) -> tuple[Any, ...]:
        what = (self.use, dict(self.options)) if self.use else self.measure
        return self.name, self.weight, self.gates, what

    def record(self) -> Any:
        """The part as JSON values, keyed by its name elsewhere: a weight, or a table with ``use``,
        ``weight``, the options, and for what is not ours the ``digest`` of its source; with
        ``unnamed`` in the place of ``use`` where no path leads to it."""
        weight: float | str = GATE if self.gates else self.weight
        if self.registered and self.use == self.name and not self.options:
            return weight
        if self.registered:
            return {"use": self.use, "weight": weight, **self.options}
        if not self.use or not self.digest or not _is_json(self.options):
            return {"unnamed": told(self.measure), "weight": weight}
        return {"use": self.use, "weight": weight, "digest": self.digest, **self.options}


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
    made, use, options = _resolved(spec, options)
    if not (callable(made) or hasattr(made, "turn") or hasattr(made, "final")):
        raise CardError(
            f"{told(made)} is no {KIND}: it is neither callable nor has it a method turn or final "
            "(see searchgym.rewards.RewardPart)"
        )
    name = name or _name(made, use)
    if not isinstance(name, str):
        raise CardError(f"a {KIND}'s name is a string, got {name!r}")
    if "." in name:
        raise CardError(f"a {KIND}'s name has no dot, got {name!r}")
    if name in RESERVED and use != name:
        raise CardError(
            f"the name {name!r} of the {KIND} {use or told(made)} is taken by a built-in measure; "
            "give it another: {'another': {'use': …, 'weight': 1}}"
        )
    gates = weight == GATE or bool(_declared(made, "gates"))
    if gates and weight not in (None, GATE):
        raise CardError(f"the {KIND} {name!r} is a gate: its weight is 'gate', got {weight!r}")
    if not gates and not is_number(1.0 if weight is None else weight):
        raise CardError(f"the weight of {KIND} {name!r} is a number or 'gate', got {weight!r}")
    number = 1.0 if gates or weight is None else float(weight)
    source = "" if use in REWARDS else source_digest(made)
    part = Part(name, made, number, gates, use, options, source)
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


def source_digest(measure: Any) -> str:
    """``sha256:…`` of the source text of a function, or of an object's class; ``""`` where there is
    none, as for what was typed into an interpreter."""
    try:
        text = inspect.getsource(_definition(measure))
    except (OSError, TypeError):
        return ""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def told(measure: Any) -> str:
    """An object for a message: its definition's qualified name, or its value."""
    if isinstance(measure, (str, int, float, bool, type(None), list, dict, tuple)):
        return repr(measure)
    where = _definition(measure)
    return f"{where.__module__}:{where.__qualname__}"


def _definition(measure: Any) -> Any:
    """The function or class that an object is made of."""
    if isinstance(measure, partial):
        return _definition(measure.func)
    if inspect.ismethod(measure):
        return measure.__func__
    return measure if inspect.isfunction(measure) or inspect.isclass(measure) else type(measure)


def _declared(measure: Any, name: str) -> Any:
    """An attribute of the object, or of the function that a partial one completes."""
    return getattr(measure.func if isinstance(measure, partial) else measure, name, None)


def _resolved(spec: Any, options: dict[str, Any]) -> tuple[Any, str, dict[str, Any]]:
    """The object, what names it, and its options."""
    if isinstance(spec, str):
        made = from_spec(KIND, {"use": spec, **options}, REWARDS, functions=True)
        return made, _registered(spec), _fields(made, options)
    if inspect.isclass(spec):
        try:
            made = spec(**options)
            return made, _path(spec), _fields(made, options)
        except TypeError as error:
            raise CardError(f"{KIND} {told(spec)}: {error}") from error
    if inspect.isfunction(spec):
        return (partial(spec, **options) if options else spec), _path(spec), options
    if options:
        raise CardError(f"{KIND} {told(spec)} is an object already; it takes no {min(options)!r}")
    if isinstance(spec, partial) and not spec.args:
        return spec, _path(spec.func), dict(spec.keywords)
    if inspect.ismethod(spec):
        return spec, _path(spec.__func__), {}
    if is_dataclass(spec) and _is_json(values := _fields(spec, {})):
        return spec, _path(type(spec)), values
    if hasattr(spec, "__dict__") and not vars(spec) and not hasattr(spec, "__slots__"):
        return spec, _path(type(spec)), {}
    return spec, "", {}


def _fields(made: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A data class's options with its defaults; of other objects, the options given."""
    if not is_dataclass(made):
        return options
    return {f.name: getattr(made, f.name) for f in fields(made) if f.init}


def _path(definition: Any) -> str:
    """The registered name or import path of a function or class; ``""`` where none leads to it."""
    module = getattr(definition, "__module__", "")
    path = getattr(definition, "__qualname__", "")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    if found is not definition:
        return ""
    return _registered(f"{module}:{path}")


def _registered(use: str) -> str:
    return next((name for name, path in REWARDS.items() if path == use), use)


def _name(made: Any, use: str) -> str:
    name = use.partition(":")[2].rpartition(".")[2] or use
    if not name:
        name = _definition(made).__name__
    return "reward" if name == "<lambda>" else name


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
