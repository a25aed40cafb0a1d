"""Rules: relations that follow from stated ones and stand on no page ("the paternal grandfather").

A rule is a path of relations, written as a SPARQL 1.1 property path without brackets: ``father/
father`` one step after the other, ``^father`` from object to subject, ``|`` between alternatives.
A step may be a rule that stands before this one. ``least`` and ``most`` keep, of at least two
ends, those whose attribute is smallest or greatest ("the oldest member"). Nothing is in such a
relation to itself: a sibling is somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ..errors import WorldError, unknown
from .schema import Cardinality, Phrases, Property, Rule, Schema

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
    """A path from its other end."""
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
