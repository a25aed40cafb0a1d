"""``Reward``: parts with weights and gates; measures turns and ends, and says what they are paid.

The reward of a turn is Σ weight · value over the parts that it earned, those of the end added in
the last turn. A gate of turns multiplies what the parts of its turn earn. With a final gate, all is
paid in the last turn, times the gate: the sum over turns is the gated sum, and no turn before the
end tells what the gate is about to say.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..errors import CardError, unknown
from ..types import Access, Call, Invalid, Opened, Search, ToolCall
from .outcome import Outcome
from .part import (
    KIND,
    Part,
    Values,
    Writer,
    of_action,
    of_end,
    parts_of,
    recorded_part,
    writer,
)
from .registry import FINAL, PUBLIC, TURN, told

PLAIN: Mapping[type, str] = {
    Search: "search", Access: "access", Call: "call", Invalid: "invalid",
}  # fmt: skip
"""The standard part of turns that a kind of action earns, besides "evidence"."""

LARGEST = 1e30
"""Largest sum of a reward's weights, signs aside: training adds rewards up in float32, and
intervals read their cubes."""


class Reward:
    """A reward of episodes, immutable; make one with :meth:`of`. Besides its own parts it measures
    those of ``registry.TURN`` and ``registry.FINAL``, with weight 0. Equal parts, equal rewards."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.parts = tuple(parts)
        names = [part.name for part in self.parts]
        for name in names:
            if names.count(name) > 1:
                raise CardError(
                    f"the {KIND} {name!r} is there twice; give one another name: "
                    "{'another': {'use': …, 'weight': 1}}"
                )
        if not sum(abs(part.weight) for part in self.parts) <= LARGEST:
            given = ", ".join(f"{part.name}: {part.weight:g}" for part in self.parts)
            raise CardError(f"weights of a reward add up to at most {LARGEST:g}, got {given}")
        if self.parts and all(part.gates for part in self.parts):
            raise CardError(
                f"a gate multiplies what other parts earn, and there are none beside {names[0]!r}; "
                f"add one, for example {{'f1': 1, {names[0]!r}: 'gate'}}"
            )

    @classmethod
    def of(cls, spec: Any) -> Reward:
        """A reward from what an environment's ``reward=`` takes.

        Args:
            spec: A part's name (``"f1"``), an import path (``"package.module:object"``), a table
                ``{"use": either, "weight": w, **options}``, a function or object, a list of any of
                these, or weights by part: ``{"f1": 1, "search": -0.02}``, whose keys may also be
                import paths or functions, and whose values ``"gate"`` or tables
                (``{"length": {"use": path, "weight": -0.1, "limit": 5}}``). A ``Reward`` is
                returned.

        Raises:
            CardError: an unknown part or option, a weight that is no finite number, weights that
                are too large, a name that is taken or occurs twice, or none of these.
        """
        return spec if isinstance(spec, Reward) else cls(parts_of(spec))

    @classmethod
    def paid(cls, spec: Any) -> Reward:
        """The reward of an environment: :meth:`of`, but ``CardError`` where it pays for
        cover-EM."""
        made = cls.of(spec)
        for part in made.parts:
            if part.use == "cover_em" and not part.gates:
                _require_no_pay(part.weight)
        return made

    # --- weights ------------------------------------------------------------------------------
    @cached_property
    def weights(self) -> Mapping[str, float]:
        """Weight by name of the parts that are added."""
        return {part.name: part.weight for part in self.parts if not part.gates}

    def effective(self, params: Mapping[str, float]) -> Mapping[str, float]:
        """Weights after a curriculum's overrides: parameter ``w_evidence`` sets ``evidence``.

        Raises:
            CardError: an override of a part that is not there, or is a gate.
        """
        overrides = [name for name in params if name.startswith("w_")]
        if not overrides:
            return self.weights
        weights = dict(self.weights)
        for override in overrides:
            name = override.removeprefix("w_")
            if name not in weights and name not in TURN and name not in FINAL:
                if any(part.name == name for part in self.parts):
                    raise CardError(f"the reward part {name!r} is a gate and has no weight to set")
                raise CardError(
                    unknown("reward part", name, {*weights, *TURN, *FINAL})
                    + f" (of the parameter {override!r})"
                )
            weights[name] = float(params[override])
            if name == "cover_em":
                _require_no_pay(weights[name])
        return weights

    @cached_property
    def own(self) -> tuple[Part, ...]:
        """The parts that not every episode measures."""
        return tuple(part for part in self.parts if not part.standard)

    @cached_property
    def turn_names(self) -> tuple[str, ...]:
        """Own parts that are measured after every turn."""
        return tuple(part.name for part in self.own if part.on_turn is not None)

    @cached_property
    def _turn_gates(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parts if p.gates and p.on_turn is not None)

    @cached_property
    def _final_gates(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parts if p.gates and p.on_end is not None)

    def hidden(self, weights: Mapping[str, float]) -> frozenset[str]:
        """Parts of turns that are not shown before the end: all but those that the action tells,
        and those that the turn was paid for. They would say what only the reward's maker knows, for
        example which search found gold passages."""
        return self._usually_hidden if weights is self.weights else self._hidden(weights)

    @cached_property
    def _usually_hidden(self) -> frozenset[str]:
        return self._hidden(self.weights)

    def _hidden(self, weights: Mapping[str, float]) -> frozenset[str]:
        names = frozenset((*TURN, *self.turn_names)) - PUBLIC
        if self._final_gates:  # nothing is paid before the end
            return names
        return frozenset(n for n in names if not weights.get(n) and n not in self._turn_gates)

    # --- measuring ----------------------------------------------------------------------------
    @cached_property
    def _on_turn(self) -> tuple[tuple[str, Writer, tuple[type, ...]], ...]:
        return tuple(
            (p.name, writer(p, measure), p.after or ())
            for p in self.own
            if (measure := p.on_turn) is not None
        )

    @cached_property
    def _on_end(self) -> tuple[Writer, ...]:
        return tuple(writer(p, measure) for p in self.own if (measure := p.on_end) is not None)

    def of_turn(self, outcome: Outcome, weights: Mapping[str, float]) -> tuple[Values, float]:
        """The parts that the latest turn earned, zeros of the standard ones left out, and what they
        are worth, the turn's gates applied. ``weights``: as :meth:`effective` gives them."""
        values: Values = {}
        worth = 0.0
        kind: type = type(outcome.action)
        for name, measure in of_action(kind):
            if value := measure(outcome):
                values[name] = value
                if name in weights:
                    worth += weights[name] * value
        if self._on_turn:
            worth = self._own_of_turn(outcome, weights, values, worth)
        for name in self._turn_gates:
            if name in values or name in TURN:  # where it was measured: zeros of TURN are left out
                worth *= values.get(name, 0.0)
        return values, worth

    @cached_property
    def plain_turns(self) -> bool:
        """True if turns are measured by the standard parts alone, and no gate multiplies them."""
        return not self._on_turn and not self._turn_gates

    def of_plain_turn(
        self,
        opened: Opened,
        calls: tuple[ToolCall, ...],
        new: int,
        gold: int,
        weights: Mapping[str, float],
    ) -> tuple[Values, float]:
        """:meth:`of_turn` where :attr:`plain_turns` is true, without an outcome: ``new`` of
        ``gold`` passages were shown for the first time. As the parts of turns, in their order."""
        name = PLAIN.get(type(opened.action))
        if name is None:
            return {}, 0.0
        values: Values = {}
        if name == "invalid":
            values[name] = 1.0
        elif calls:
            values[name] = float(len(calls)) if name == "search" else 1.0
        if new:
            values["evidence"] = new / gold
        worth = 0.0
        for part, value in values.items():
            if part in weights:
                worth += weights[part] * value
        return values, worth

    def _own_of_turn(
        self, outcome: Outcome, weights: Mapping[str, float], values: Values, worth: float
    ) -> float:
        kind = type(outcome.action)
        for name, write, after in self._on_turn:
            if not after or kind in after:
                write(outcome, values)
                if name in weights:
                    worth += weights[name] * values[name]
        return worth

    def of_end(self, outcome: Outcome, weights: Mapping[str, float]) -> tuple[Values, float]:
        """The parts of the end, zeros included, and what they are worth, no gate applied."""
        values = {name: measure(outcome) for name, measure in of_end()}
        for write in self._on_end:
            write(outcome, values)
        worth = 0.0
        for name, value in values.items():
            if name in weights:
                worth += weights[name] * value
        return values, worth

    @cached_property
    def holds(self) -> bool:
        """True if a final gate keeps what turns are worth until the end."""
        return bool(self._final_gates)

    def gated(self, worth: float, final: Values) -> float:
        """Compute the return of an episode, times the final gates."""
        for name in self._final_gates:
            worth *= final[name]
        return worth

    def totals(self, turns: Sequence[Mapping[str, float]], final: Values) -> Values:
        """The own parts over a whole episode, with what they said in detail: sums over turns and
        end, for a gate products."""
        out: Values = {}
        for values in (*turns, final):
            for name, value in values.items():
                if "." in name:
                    out[name] = out.get(name, 0.0) + value
        for part in self.own:
            given = [turn[part.name] for turn in turns if part.name in turn]
            if part.on_end is not None:
                given.append(final.get(part.name, 0.0))
            out[part.name] = math.prod(given) if part.gates else math.fsum(given)
        return out

    # --- records ------------------------------------------------------------------------------
    @cached_property
    def _record(self) -> Mapping[str, Any]:
        return {part.name: part.record() for part in self.parts}

    def to_json(self) -> dict[str, Any]:
        """Name → weight, or a table that says where the part is from (:meth:`Part.record`)."""
        return {name: value if isinstance(value, (float, str)) else dict(value)
                for name, value in self._record.items()}  # fmt: skip

    @classmethod
    def from_json(
        cls,
        record: Mapping[str, Any],
        given: Any = None,
        *,
        trust: bool = False,
        scored: bool = True,
    ) -> Reward:
        """The reward that :meth:`to_json` recorded.

        Args:
            record: Names and weights; only registered parts are built from it without more.
            given: A reward (anything :meth:`of` takes) whose objects stand for recorded parts of
                the same name that are not registered.
            trust: Load and run what the record names by import path.
            scored: False puts 0 in the place of parts that are neither registered nor given.

        Raises:
            CardError: a part that is not registered, neither given nor trusted; or one whose
                source is not what it was.
        """
        known = {part.name: part for part in Reward.of(given).parts} if given is not None else {}
        return cls(recorded_part(name, said, known, trust, scored) for name, said in record.items())

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Reward) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"Reward({self.to_json()})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Functions and classes go by reference.

        Raises:
            CardError: one that no import path leads to (a lambda, a local function).
        """
        for part in self.parts:
            if not part.use and _unreachable(part.measure):
                raise CardError(
                    f"the reward part {part.name!r} ({told(part.measure)}) cannot be sent to "
                    "another process: no import path leads to it; define it with def at the top "
                    "level of a module"
                )
        return Reward, (self.parts,)


def _require_no_pay(weight: float) -> None:
    if weight > 0:
        raise CardError(
            "cover_em is a measure and is not paid: an answer that names everything earns it "
            "('1 2 3 …' every count); pay for 'em', 'f1' or 'set_f1', or let it multiply another "
            "part: {'f1': 1, 'cover_em': 'gate'}"
        )


def _unreachable(measure: Any) -> bool:
    try:
        pickle.dumps(measure)
    except (pickle.PicklingError, AttributeError, TypeError):
        return True
    return False
