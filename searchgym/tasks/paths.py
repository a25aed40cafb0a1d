"""Facts looked up in a world, and paths of them: how a question describes a thing it does not name.

A path starts at a named entity and takes steps, forward ("the director of S") or inverse ("the
film directed by O"). A step is *definite* when it has exactly one outcome in the world, so that
"the …" is justified.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..worlds.world import Fact, World


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
    """All facts by which one relation links others to one thing."""

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


class Lookup:
    """Facts by subject and property, and by property and object (attributes included)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._out: dict[int, dict[int, list[Fact]]] = {}
        self._into: dict[int, dict[int, list[Fact]]] = {}
        self._columns: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def out(self, entity: int) -> dict[int, list[Fact]]:
        """Facts of an entity by property, each list by object."""
        by_property = self._out.get(entity)
        if by_property is None:
            by_property = self._out[entity] = {}
            for fact in self.world.facts_of(entity):
                by_property.setdefault(fact.property, []).append(fact)
        return by_property

    def into(self, entity: int) -> dict[int, list[Fact]]:
        """Relation facts about an entity by property, each list by subject."""
        by_property = self._into.get(entity)
        if by_property is None:
            by_property = self._into[entity] = {}
            for fact in self.world.facts_about(entity):
                by_property.setdefault(fact.property, []).append(fact)
        return by_property

    def objects(self, entity: int, prop: int) -> list[Fact]:
        """Facts (entity, prop, ?)."""
        return self.out(entity).get(prop, [])

    def subjects(self, prop: int, value: int) -> list[Fact]:
        """Facts (?, prop, value); ``value`` is an entity number or an attribute's raw value."""
        if self.world.schema.properties[prop].is_relation:
            return self.into(value).get(prop, [])
        values, rows = self._sorted(prop)
        lo, hi = np.searchsorted(values, [value, value + 1])
        return [self.world.fact(int(i)) for i in rows[lo:hi]]

    def facts_with(self, prop: int) -> NDArray[np.int64]:
        """Rows of every fact of a property, by object then subject."""
        return self._sorted(prop)[1]

    def values_of(self, prop: int) -> list[int]:
        """Distinct objects a property takes in this world, ascending."""
        return [int(v) for v in np.unique(self._sorted(prop)[0])]

    def _sorted(self, prop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        columns = self._columns.get(prop)
        if columns is None:
            rows = self._rows_by_property[self._bounds[prop] : self._bounds[prop + 1]]
            objects = self.world.object_of[rows]
            order = np.argsort(objects, kind="stable")
            columns = self._columns[prop] = (objects[order], rows[order])
        return columns

    @cached_property
    def _rows_by_property(self) -> NDArray[np.int64]:
        return np.argsort(self.world.property_of, kind="stable")

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        ordered = self.world.property_of[self._rows_by_property]
        return np.searchsorted(ordered, np.arange(len(self.world.schema.properties) + 1))
