"""A method: one object per slot, from a table or a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import CardError, unknown
from .slots.protocols import (
    AdvantageEstimator,
    DataPolicy,
    Loss,
    RewardTransform,
    RolloutStrategy,
    Schedule,
    Signal,
    SlotObject,
)
from .slots.registry import REGISTRY, SlotName, make

FOLDER = Path(__file__).resolve().parent / "recipes"
SEVERAL: tuple[SlotName, ...] = ("signal", "reward", "loss")
"""Slots that hold a list."""
ALWAYS = frozenset({"old_logp", "entropy"})
"""Fields that every trainer provides when they are asked for."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The objects. Make one by :meth:`of`."""

    rollout: RolloutStrategy
    signal: tuple[Signal, ...]
    reward: tuple[RewardTransform, ...]
    advantage: AdvantageEstimator
    loss: tuple[Loss, ...]
    data: DataPolicy
    schedule: Schedule
    train: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the trainer's configuration that belong to the method."""
    table: Mapping[str, Any] = field(default_factory=dict)
    """What it was made of."""

    @classmethod
    def of(cls, spec: str | Path | Mapping[str, Any] | Recipe) -> Recipe:
        """From a shipped recipe's name, a TOML file or a table.

        Slots left out: chains of 8, the environment's return as signal and reward, uniform tasks,
        constant coefficients. Advantage and loss must be given.

        Raises:
            CardError: unknown slots, names or options.
        """
        if isinstance(spec, Recipe):
            return spec
        table = read(spec) if isinstance(spec, str | Path) else dict(spec)
        known = (*REGISTRY, "train", "summary")
        for name in table:
            if name not in known:
                raise CardError(unknown("slot", str(name), known))
        for name in ("advantage", "loss"):
            if name not in table:
                raise CardError(f"a recipe needs the slot {name!r}; it has {sorted(table)}")
        filled = {
            "rollout": "chains", "signal": ["return"], "reward": ["weighted"], "data": "uniform",
            "schedule": "constant", **table,
        }  # fmt: skip
        made: dict[str, Any] = {}
        for slot in REGISTRY:
            given = filled[slot]
            if slot in SEVERAL:
                one = isinstance(given, str) or not isinstance(given, Sequence)
                made[slot] = tuple(make(slot, s) for s in ([given] if one else given))
            else:
                made[slot] = make(slot, given)
        return cls(**made, train=dict(table.get("train", {})), table=table)

    def parts(self) -> Iterator[tuple[str, SlotObject]]:
        """(place, object), e.g. ``("loss.0", …)``."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in SEVERAL:
                yield from ((f"{f.name}.{i}", v) for i, v in enumerate(value))
            elif f.name in REGISTRY:
                yield f.name, value

    def check(self, provided: frozenset[str]) -> None:
        """``CardError`` naming the first need that neither a part nor ``provided`` meets."""
        there = provided | ALWAYS
        for _, part in self.parts():
            there |= part.provides
        for place, part in self.parts():
            for name in sorted(part.requires - there):
                advice = ADVICE.get(name, f"add a signal that provides {name!r}")
                raise CardError(
                    f"{place} ({type(part).__name__}) needs {name!r}, which nothing here provides: "
                    f"{advice}"
                )

    def needs(self, name: str) -> bool:
        """Whether any part reads it."""
        return any(name in part.requires for _, part in self.parts())

    def state_dict(self) -> dict[str, Any]:
        return {place: part.state_dict() for place, part in self.parts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for place, part in self.parts():
            part.load_state_dict(state[place])


ADVICE: Mapping[str, str] = {
    "ref_logp": "TrainableLM(…, reference=True) or lora=Lora() keeps a reference",
    "teacher_logp": "give the trainer a teacher",
    "value": "give the trainer a critic",
    "baseline": "rollout = {use = 'chains', greedy_twin = true} plays one",
    "length": "add signal = ['length', …]",
    "em": "add signal = ['parts', …]",
    "return": "add signal = ['return', …]",
}


def shipped() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(spec: str | Path) -> dict[str, Any]:
    """A recipe's table, by a shipped name or a file's path."""
    path = Path(spec)
    if path.suffix != ".toml":
        if str(spec) not in shipped():
            raise CardError(unknown("recipe", str(spec), shipped()))
        path = FOLDER / f"{spec}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CardError(f"{path}: not valid TOML: {error}") from error
