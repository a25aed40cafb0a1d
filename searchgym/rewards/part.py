"""One part of a reward: what measures it, its name, weight and origin, and how it is called, with
the values of one's own checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, Literal, Protocol, TypeVar, overload

from ..errors import RewardError
from ..objects import load_known
from .outcome import Outcome
from .registry import FINAL, REWARDS, TURN, declared, is_json, told

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
