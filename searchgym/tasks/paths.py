"""Paths through a world: how a question describes a thing it does not name.

A path starts at a named entity and takes steps, forward ("the director of S") or inverse ("the
film directed by O"). A step is *definite* when it has exactly one outcome in the world, so that
"the …" is justified.
"""

from __future__ import annotations

from typing import NamedTuple

from ..worlds.world import Fact


class PathStep(NamedTuple):
    """One hop. ``value`` is where it leads: an entity number, or an attribute's raw value."""

    property: int
    inverse: bool
    value: int
    fact: int
    """Row of the fact in the world; -1 for a fact the world does not hold (false premises)."""


class Path(NamedTuple):
    start: int
    steps: tuple[PathStep, ...] = ()

    @property
    def end(self) -> int:
        return self.steps[-1].value if self.steps else self.start

    @property
    def prefix(self) -> Path:
        return Path(self.start, self.steps[:-1])

    def then(self, step: PathStep) -> Path:
        return Path(self.start, (*self.steps, step))

    @property
    def entities(self) -> tuple[int, ...]:
        """Start and every intermediate entity (the end is excluded when there are steps)."""
        return (self.start, *(s.value for s in self.steps[:-1]))


class FactGroup(NamedTuple):
    """Everything one relation links to one thing."""

    anchor: int
    relation: int
    inverse: bool
    """True: the members are subjects ("the films directed by X"); False: objects."""
    facts: tuple[Fact, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(f.subject if self.inverse else f.object for f in self.facts)


def forward(fact: Fact) -> PathStep:
    """The step from a fact's subject to its object."""
    return PathStep(fact.property, False, fact.object, fact.id)


def backward(fact: Fact) -> PathStep:
    """The step from a fact's object to its subject."""
    return PathStep(fact.property, True, fact.subject, fact.id)
