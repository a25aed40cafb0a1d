"""Rules: relations that follow from stated ones and stand on no page ("the paternal grandfather").

A rule is a path of relations, written as a SPARQL 1.1 property path without brackets: ``father/
father`` one step after the other, ``^father`` from object to subject, ``|`` between alternatives.
A step may be a rule that stands before this one. ``least`` and ``most`` keep, of at least two
ends, those whose attribute is smallest or greatest ("the oldest member"). Nothing is in such a
relation to itself: a sibling is somebody else. Where a fact follows in several ways, the first one
counts: by the order of the rule's alternatives, then of the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError, unknown
from .schema import Cardinality, Phrases, Property, Rule, Schema
from .world import Fact, World

NOTHING = Phrases((), ())


class RelationStep(NamedTuple):
    """One relation of a path, walked forward or (``^``) from object to subject."""

    name: str
    inverse: bool


Paths = tuple[tuple[RelationStep, ...], ...]
"""Alternatives, each of at least one step."""


def parse_path(text: str) -> Paths:
    """``"father/^father|mother/^mother"`` as steps; ``ValueError`` for an empty step."""
    paths = []
    for alternative in text.split("|"):
        steps = [part.strip() for part in alternative.split("/")]
        if not all(step.lstrip("^") and step.count("^") <= 1 for step in steps):
            raise ValueError(
                f"expected steps such as 'father/^father|mother/^mother', got {text!r}"
            )
        paths.append(tuple(RelationStep(s.removeprefix("^"), s.startswith("^")) for s in steps))
    return tuple(paths)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Types that a relation or rule leads from and to; whether each side has at most one other."""

    source: str
    target: str
    forward: bool
    backward: bool
    symmetric: bool

    def turned(self) -> _Ends:
        return _Ends(self.target, self.source, self.backward, self.forward, self.symmetric)


def rule_properties(
    rules: tuple[Rule, ...], properties: tuple[Property, ...], where: str
) -> tuple[Property, ...]:
    """Each rule as the relation it defines, with its wording and cardinality and no sentences.

    Raises ``WorldError`` for a path that does not fit together, names an unknown step or one that
    does not stand before it, or for wording that cannot be used.
    """
    known = {p.name: _ends(p) for p in properties if p.target is not None}
    attributes = {p.name: p for p in properties if p.target is None}
    made = []
    for rule in rules:
        here = f"{where}: rules.{rule.name}"
        if rule.name in known or rule.name in attributes:
            raise WorldError(f"{here}: a relation or attribute has this name; rename one")
        ends = _rule_ends(rule, known, here)
        if rule.least or rule.most:
            ends = _extreme_ends(rule, ends, attributes, here)
        known[rule.name] = ends
        made.append(
            Property(
                rule.name, ends.source, ends.target, _cardinality(ends), NOTHING, rule.question,
                rule.noun, rule.inverse, symmetric=ends.symmetric,
            )
        )  # fmt: skip
    return tuple(made)


def with_rules(schema: Schema) -> Schema:
    """The schema with its rules as further relations, after those that pages state."""
    made = rule_properties(schema.rules, schema.properties, schema.name)
    return replace(schema, properties=(*schema.properties, *made))


def _ends(p: Property) -> _Ends:
    assert p.target is not None
    forward, backward = p.cardinality in ("1-1", "n-1"), p.cardinality in ("1-1", "1-n")
    return _Ends(p.source, p.target, forward, backward, p.symmetric)


def _rule_ends(rule: Rule, known: Mapping[str, _Ends], where: str) -> _Ends:
    try:
        paths = parse_path(rule.path)
    except ValueError as error:
        raise WorldError(f"{where}: path: {error}") from None
    alternatives = []
    for path in paths:
        steps = []
        for step in path:
            if step.name not in known:
                raise WorldError(f"{where}: path: {unknown('relation', step.name, known)}")
            steps.append(known[step.name].turned() if step.inverse else known[step.name])
        for before, after in pairwise(steps):
            if before.target != after.source:
                raise WorldError(
                    f"{where}: path {rule.path!r} leads to a {before.target} and goes on from a "
                    f"{after.source}"
                )
        alternatives.append(steps)
    ends = {(steps[0].source, steps[-1].target) for steps in alternatives}
    if len(ends) != 1:
        raise WorldError(f"{where}: the alternatives of {rule.path!r} join different types: {ends}")
    alone = len(alternatives) == 1
    return _Ends(
        *ends.pop(),
        forward=alone and all(step.forward for step in alternatives[0]),
        backward=alone and all(step.backward for step in alternatives[0]),
        symmetric=_read(paths, known) == _read(tuple(map(_turned, paths)), known),
    )


def _read(paths: Paths, known: Mapping[str, _Ends]) -> set[tuple[RelationStep, ...]]:
    """The alternatives; a symmetric step reads alike both ways."""
    return {
        tuple(RelationStep(s.name, s.inverse and not known[s.name].symmetric) for s in path)
        for path in paths
    }


def _turned(path: tuple[RelationStep, ...]) -> tuple[RelationStep, ...]:
    return tuple(RelationStep(s.name, not s.inverse) for s in reversed(path))


def _extreme_ends(rule: Rule, ends: _Ends, attributes: Mapping[str, Property], where: str) -> _Ends:
    name = rule.least or rule.most
    if rule.least and rule.most:
        raise WorldError(f"{where}: give least or most, not both")
    about = attributes.get(name)
    if about is None or about.source != ends.target or about.value == "category":
        fitting = [
            n for n, p in attributes.items() if p.source == ends.target and p.value != "category"
        ]
        raise WorldError(
            f"{where}: "
            + unknown(f"attribute of a {ends.target} that can be compared", name, fitting)
        )
    if ends.forward:
        raise WorldError(f"{where}: path {rule.path!r} has one end; least and most need several")
    if rule.inverse.train or rule.inverse.heldout:
        raise WorldError(f"{where}: inverse: a relation with least or most is asked forward only")
    return _Ends(ends.source, ends.target, forward=True, backward=False, symmetric=False)


def _cardinality(ends: _Ends) -> Cardinality:
    kinds: dict[tuple[bool, bool], Cardinality] = {
        (True, True): "1-1", (True, False): "n-1", (False, True): "1-n", (False, False): "n-n",
    }  # fmt: skip
    return kinds[ends.forward, ends.backward]


Ints = NDArray[np.int64]
MOST_PER_ENTITY = 60
"""Facts per entity that a rule may imply: "of the same country" would be the world squared."""


@dataclass(frozen=True, eq=False)
class DerivedWorld(World):
    """A world whose rules are relations, too; their facts follow the stated ones.

    A stated fact keeps its number, so that a corpus of the world still says where it stands.
    """

    parts_indptr: Ints  # (D + 1,) parts of implied fact stated + i: parts_of[indptr[i]:indptr[i+1]]
    parts_of: Ints  # (P,) rows of stated facts

    @property
    def stated(self) -> int:
        """Number of stated facts; those from here on are implied."""
        return len(self.subject_of) - len(self.parts_indptr) + 1

    def parts(self, fact: int) -> tuple[int, ...]:
        """Stated facts that an implied one follows from, in the order of the rule's path; of a
        stated fact, itself."""
        if fact < self.stated:
            return (fact,)
        lo, hi = self.parts_indptr[fact - self.stated], self.parts_indptr[fact - self.stated + 1]
        return tuple(self.parts_of[lo:hi].tolist())

    def facts_of(self, entity: int) -> list[Fact]:
        """Facts whose subject is ``entity``, by property then object."""
        return [*super().facts_of(entity), *self._more(self._by_subject, entity)]

    def facts_about(self, entity: int) -> list[Fact]:
        """Relation facts whose object is ``entity``, by property then subject."""
        return [*super().facts_about(entity), *self._more(self._by_object, entity)]

    def _more(self, columns: tuple[Ints, Ints], entity: int) -> Iterator[Fact]:
        order, indptr = columns
        return map(self.fact, order[indptr[entity] : indptr[entity + 1]].tolist())

    @cached_property
    def _by_subject(self) -> tuple[Ints, Ints]:
        return self._implied(self.subject_of.astype(np.int64), self.object_of)

    @cached_property
    def _by_object(self) -> tuple[Ints, Ints]:
        return self._implied(self.object_of, self.subject_of)

    def _implied(self, first: Ints, last: NDArray[Any]) -> tuple[Ints, Ints]:
        """The implied facts ordered by one end, and where each entity's begin."""
        first, new = first[self.stated :], slice(self.stated, None)
        order = np.lexsort((last[new], self.property_of[new], first))
        return order + self.stated, np.searchsorted(first[order], np.arange(self.n_entities + 1))


_KNOWN: WeakKeyDictionary[World, DerivedWorld] = WeakKeyDictionary()


def derived(world: World) -> DerivedWorld:
    """The world with every fact its schema's rules imply, worked out once while the world lives.

    Raises ``WorldError`` for a rule that implies more than ``MOST_PER_ENTITY`` facts per entity.
    """
    if isinstance(world, DerivedWorld):
        return world
    if world not in _KNOWN:
        _KNOWN[world] = _with_facts_of(world, world.schema.rules)
    return _KNOWN[world]


def presumed(world: World) -> DerivedWorld:
    """The derived world of what a reader takes for granted as well: where no page states a relation
    that always ``follows`` a path, its end (of a mother, the father's wife)."""
    return _with_facts_of(world, (*map(_presumption, _always(world.schema)), *world.schema.rules))


def presumable(schema: Schema) -> frozenset[str]:
    """Names of the relations and rules that have other facts in the ``presumed`` world."""
    names = {p.name for p in _always(schema)}
    for rule in schema.rules:
        if any(step.name in names for path in parse_path(rule.path) for step in path):
            names.add(rule.name)
    return frozenset(names)


def _always(schema: Schema) -> list[Property]:
    return [p for p in schema.properties if p.follows and not p.stray]


def _presumption(p: Property) -> Rule:
    return Rule(p.name, p.follows, NOTHING, NOTHING)


def _with_facts_of(world: World, rules: Iterable[Rule]) -> DerivedWorld:
    schema = with_rules(world.schema)
    table = _Table(world, schema)
    for rule in rules:
        table.add(rule)
    columns = {f.name: getattr(world, f.name) for f in fields(World)}
    columns |= {
        "schema": schema,
        "subject_of": table.subject.astype(np.int32),
        "property_of": table.property.astype(np.int16),
        "object_of": table.object,
    }
    return DerivedWorld(**columns, parts_indptr=table.indptr, parts_of=table.parts)


class _Table:
    """Facts by number: the world's, then those of each rule as it is added."""

    def __init__(self, world: World, schema: Schema) -> None:
        self._world, self._schema = world, schema
        self.subject = world.subject_of.astype(np.int64)
        self.property = world.property_of.astype(np.int64)
        self.object = world.object_of
        self.indptr, self.parts = np.zeros(1, np.int64), np.zeros(0, np.int64)
        self._stated = world.n_facts

    def add(self, rule: Rule) -> None:
        walks = [self._walked(rule, path) for path in parse_path(rule.path)]
        start = np.concatenate([f[0] for f in walks])
        end = np.concatenate([f[1] for f in walks])
        # Stable: the first of several ways to one fact is kept.
        order = np.lexsort((end, start))
        first = np.ones(len(order), bool)
        first[1:] = (np.diff(start[order]) != 0) | (np.diff(end[order]) != 0)
        stated = self.subject[self.property == self._schema.property_index(rule.name)]
        first &= ~np.isin(start[order], stated)  # a presumption is for those that state none
        kept = order[first & (start[order] != end[order])]
        lengths = np.concatenate([np.full(len(s), f.shape[1]) for s, _, f in walks])
        steps = np.concatenate([f.ravel() for _, _, f in walks])
        begin = np.cumsum(lengths) - lengths
        used = steps[_ranges(begin[kept], lengths[kept])]
        start, end, lengths = start[kept], end[kept], lengths[kept]
        parts, sizes = self._stated_parts(used)
        lengths = np.add.reduceat(np.append(sizes, 0), np.cumsum(lengths) - lengths)
        if rule.least or rule.most:
            start, end, parts, lengths = self._extremes(rule, start, end, parts, lengths)
        self._append(rule.name, start, end, parts, lengths)

    def _append(self, name: str, start: Ints, end: Ints, parts: Ints, lengths: Ints) -> None:
        index = np.full(len(start), self._schema.property_index(name))
        self.subject = np.concatenate([self.subject, start])
        self.property = np.concatenate([self.property, index])
        self.object = np.concatenate([self.object, end])
        self.indptr = np.concatenate([self.indptr, self.indptr[-1] + np.cumsum(lengths)])
        self.parts = np.concatenate([self.parts, parts])

    def _relation(self, name: str, inverse: bool) -> tuple[Ints, Ints, Ints]:
        rows = np.flatnonzero(self.property == self._schema.property_index(name))
        here, there = self.subject[rows], self.object[rows]
        if inverse:
            here, there = there, here
        order = np.lexsort((rows, here))
        return here[order], there[order], rows[order]

    def _walked(self, rule: Rule, path: tuple[tuple[str, bool], ...]) -> tuple[Ints, Ints, Ints]:
        """Start, end and facts (n, steps) of every walk along a path."""
        start, here, rows = self._relation(*path[0])
        used = rows[:, None]
        most = MOST_PER_ENTITY * self._world.n_entities
        for step in path[1:]:
            source, target, rows = self._relation(*step)
            lo, hi = np.searchsorted(source, here), np.searchsorted(source, here, side="right")
            if (total := int((hi - lo).sum())) > most:
                raise WorldError(
                    f"rules.{rule.name}: its path {rule.path!r} has {total:,} walks in a world of "
                    f"{self._world.n_entities:,} entities, more than {MOST_PER_ENTITY} each; take "
                    "relations that fewer things share"
                )
            again, onward = np.repeat(np.arange(len(here)), hi - lo), _ranges(lo, hi - lo)
            start, here = start[again], target[onward]
            used = np.concatenate([used[again], rows[onward, None]], axis=1)
        return start, here, used

    def _stated_parts(self, facts: Ints) -> tuple[Ints, Ints]:
        """Stated facts behind facts of any kind, one after the other, and how many each has."""
        implied = facts >= self._stated
        at = np.where(implied, facts - self._stated, 0)
        sizes = np.ones(len(facts), np.int64)
        if implied.any():
            sizes[implied] = (self.indptr[at + 1] - self.indptr[at])[implied]
        out = np.empty(int(sizes.sum()), np.int64)
        begin = np.cumsum(sizes) - sizes
        out[begin[~implied]] = facts[~implied]
        if implied.any():
            where = _ranges(begin[implied], sizes[implied])
            out[where] = self.parts[_ranges(self.indptr[at[implied]], sizes[implied])]
        return out, sizes

    def _extremes(
        self, rule: Rule, start: Ints, end: Ints, parts: Ints, lengths: Ints
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Keep those ends whose value is least (most) of every start with two or more ends that all
        have the attribute; parts are the ways to all ends, then their values."""
        source, value, rows = self._relation(rule.least or rule.most, False)
        at = np.searchsorted(source, end)
        at_most = np.minimum(at, max(len(source) - 1, 0))
        known = (at < len(source)) & (source[at_most] == end) if len(source) else at < 0
        first = np.flatnonzero(np.diff(start, prepend=-1))
        sizes = np.diff(np.append(first, len(start)))
        begin = np.cumsum(lengths) - lengths
        made: list[tuple[int, int, Ints]] = []
        for lo, n in zip(first.tolist(), sizes.tolist(), strict=True):
            group = slice(lo, lo + n)
            if n < 2 or not known[group].all():
                continue
            keys, facts = value[at[group]], rows[at[group]]
            best = keys.min() if rule.least else keys.max()
            ways = parts[begin[lo] : begin[lo + n - 1] + lengths[lo + n - 1]]
            both = np.array(list(dict.fromkeys([*ways.tolist(), *facts.tolist()])), np.int64)
            made += [(int(start[lo]), int(e), both) for e in end[group][keys == best]]
        return (
            np.array([m[0] for m in made], np.int64),
            np.array([m[1] for m in made], np.int64),
            np.concatenate([m[2] for m in made]) if made else np.zeros(0, np.int64),
            np.array([len(m[2]) for m in made], np.int64),
        )


def _ranges(begin: Ints, lengths: Ints) -> Ints:
    """``begin[i] … begin[i] + lengths[i] - 1`` for every i, one after the other."""
    total = np.cumsum(lengths)
    return np.arange(int(total[-1]) if len(total) else 0) + np.repeat(
        begin - (total - lengths), lengths
    )
