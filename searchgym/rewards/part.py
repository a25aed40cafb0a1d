"""One part of a reward: what measures it, its name, weight and origin, how it is called, with the
values of one's own checked; and how it is made from a spec (a name, an import path, a table, a
function, a list) or a record, which may name what is registered and nothing else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, partial
from numbers import Real
from typing import Any, Literal, Protocol, TypeVar, overload

from ..errors import CardError, RewardError, check_known
from ..objects import from_spec, is_number, load_known
from ..text import cover_match
from ..types import Access, Call, Invalid, Search
from .outcome import MEASURES, Outcome
from .registry import (
    FINAL,
    REWARDS,
    TURN,
    declared,
    definition,
    fields_of,
    is_json,
    path_of,
    registered,
    source_digest,
    told,
)

GATE: Literal["gate"] = "gate"
"""The weight of a part that multiplies the others instead of being added to them."""
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
    """Weight of the part; unused in a gate."""
    gates: bool = False
    use: str = ""
    """Name in the registry or import path; ``""``: neither leads to it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """Digest of its source, as it was when the part was made; ``""`` for what is registered, and
    where there is no source."""

    @property
    def on_turn(self) -> Callable[[Outcome], Any] | None:
        """Function that is called after every turn."""
        if hasattr(self.measure, "turn") or hasattr(self.measure, "final"):
            turn: Callable[[Outcome], Any] | None = getattr(self.measure, "turn", None)
            return turn
        return None if self.after is None else self.measure

    @property
    def on_end(self) -> Callable[[Outcome], Any] | None:
        """Function that is called at the end."""
        if hasattr(self.measure, "turn") or hasattr(self.measure, "final"):
            final: Callable[[Outcome], Any] | None = getattr(self.measure, "final", None)
            return final
        return self.measure if self.after is None else None

    @property
    def after(self) -> tuple[type, ...] | None:
        """Kinds of actions after which a function of turns is called; ``()``: all. ``None``: it is
        not one."""
        return declared(self.measure, "per_turn")

    @property
    def registered(self) -> bool:
        return self.use in REWARDS

    @property
    def standard(self) -> bool:
        """True if it is one of the parts that every episode measures, under its own name."""
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
        if not self.use or not self.digest or not is_json(self.options):
            return {"unnamed": told(self.measure), "weight": weight}
        return {"use": self.use, "weight": weight, "digest": self.digest, **self.options}


Values = dict[str, float]
Measure = Callable[[Outcome], float]
Writer = Callable[[Outcome, Values], None]
"""Measures an own part and writes its value, and what it says in detail, into values."""


@cache
def of_action(kind: type) -> tuple[tuple[str, Measure], ...]:
    """The standard parts of turns that a kind of action may earn."""
    parts = [(name, load_known(REWARDS[name])) for name in TURN]
    return tuple((name, measure) for name, measure in parts if kind in measure.per_turn)


@cache
def of_end() -> tuple[tuple[str, Measure], ...]:
    """The standard parts of the end."""
    return tuple((name, load_known(REWARDS[name])) for name in FINAL)


def writer(part: Part, function: Callable[[Outcome], Any]) -> Writer:
    """``function``, its value written down as a finite float; ``RewardError`` names the part."""
    name, where = part.name, part.use or told(part.measure)

    def write(outcome: Outcome, values: Values) -> None:
        try:
            value = function(outcome)
        except Exception as error:
            raise RewardError(
                f"the reward part {name!r} ({where}) failed on task {outcome.task.id!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if isinstance(value, Mapping):
            detail = {f"{name}.{key}": number(each) for key, each in value.items()}
            if None not in detail.values():
                values.update(detail)  # type: ignore[arg-type]
                values[name] = math.fsum(detail.values())  # type: ignore[arg-type]
                return
        elif (plain := number(value)) is not None:
            values[name] = plain
            return
        raise RewardError(
            f"the reward part {name!r} ({where}) must give a finite number, or several by name, "
            f"and gave {value!r:.80} on task {outcome.task.id!r}"
        )

    return write


def number(value: Any) -> float | None:
    """A finite float of a number, a truth value or a NumPy or PyTorch scalar; ``None`` of anything
    else."""
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        with suppress(TypeError, ValueError, OverflowError):
            plain = float(value)
            return plain if math.isfinite(plain) else None
    return None


# --- from specs ---------------------------------------------------------------------------------
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


# --- from records -------------------------------------------------------------------------------
def recorded_part(
    name: str, said: Any, known: Mapping[str, Part], trust: bool, scored: bool
) -> Part:
    """The part that ``said`` records under ``name``.

    Args:
        name: The part's.
        said: Result of :meth:`Part.record`: a weight or a table.
        known: Parts by name whose objects may stand in for what is not registered.
        trust: Import what the record names.
        scored: False puts 0 in the place of what is neither registered nor known.

    Raises:
        CardError: as for ``Reward.from_json``.
    """
    if not isinstance(said, Mapping):
        check_known(KIND, REWARDS, name)
        return make_part(name, said)
    use = said.get("use", "")
    if use in REWARDS:
        return make_part(said, name=name)
    weight = said.get("weight", 1.0)
    given = known.get(name)
    if given is not None:
        if use and given.use != use:
            raise CardError(
                f"the reward part {name!r} was recorded as {use!r}, and the one given is "
                f"{given.use or told(given.measure)!r}"
            )
        if "digest" in said:
            check_digest(given, said["digest"])
        gates = weight == GATE
        return replace(given, weight=1.0 if gates else float(weight), gates=gates)
    if not scored:
        return Part(name, _nothing, 1.0 if weight == GATE else float(weight), weight == GATE)
    if not use:
        raise CardError(
            f"the reward part {name!r} ({said.get('unnamed')}) has no import path, so a record "
            "cannot bring it back; pass the object: reward=…"
        )
    if not trust:
        raise CardError(
            f"the reward part {name!r} is code of its own ({use!r}), and a record may not say what "
            "is run; pass the object (reward=…), or trust=True (--trust) if you know where the "
            "record is from"
        )
    return make_part(said, name=name)


def _nothing(outcome: Outcome) -> float:
    return 0.0


@per_turn(Search)
def search(outcome: Outcome) -> float:
    """Queries that the turn ran; parallel ones count one by one."""
    return float(len(outcome.calls))


@per_turn(Access)
def access(outcome: Outcome) -> float:
    """1 for a turn that opened a page."""
    return 1.0 if outcome.calls else 0.0


@per_turn(Call)
def call(outcome: Outcome) -> float:
    """1 for a turn that used another tool."""
    return 1.0 if outcome.calls else 0.0


@per_turn(Invalid)
def invalid(outcome: Outcome) -> float:
    """1 for a turn whose text was no legal action."""
    return 1.0


@per_turn(Search, Access, Call)
def evidence(outcome: Outcome) -> float:
    """Share of the task's gold passages that the turn showed for the first time."""
    new = outcome.new_evidence
    return new / outcome.evidence_total if new else 0.0


@per_turn(Search, Access, Call)
def answer_in_results(outcome: Outcome) -> float:
    """1 for a turn whose results hold an accepted answer as whole words, also where the task names
    no gold passages (the turn reward of MT-GRPO, arXiv 2505.11821)."""
    return cover_match(outcome.shown, outcome.answers) if outcome.calls else 0.0
