"""A generated world: a knowledge graph in NumPy columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .schema import Property, Schema
from .values import format_value

if TYPE_CHECKING:
    import networkx as nx


class Fact(NamedTuple):
    """``subject --property--> object``; ``object`` is an entity number for relations, else the
    attribute's value (a date as proleptic Gregorian ordinal, a year, a count, a category's place).
    ``id`` is the fact's row in the world's columns."""

    id: int
    subject: int
    property: int
    object: int


@dataclass(frozen=True, eq=False)
class World:
    """Entities 0..n-1 and facts sorted by (subject, property, object).

    All arrays are read-only; shapes: N entities, F facts.
    """

    schema: Schema
    seed: int
    titles: Sequence[str]
    """Unique page titles, e.g. "Oldeth Marn (film)"."""
    names: Sequence[str]
    """Names (N,) of the entities in texts, e.g. "Oldeth Marn"; homonyms share a name."""
    type_of: NDArray[np.int16]  # (N,)
    subject_of: NDArray[np.int32]  # (F,)
    property_of: NDArray[np.int16]  # (F,)
    object_of: NDArray[np.int64]  # (F,)
    indptr: NDArray[np.int64]  # (N + 1,) facts of entity e are indptr[e]:indptr[e + 1]
    inverse_order: NDArray[np.int64]  # (R,) relation facts sorted by (object, property, subject)
    inverse_indptr: NDArray[np.int64]  # (N + 1,) into inverse_order, by object
    facet_of: NDArray[np.int8]  # (N,) place in the type's facets; 0 where it has none
    alias_of: Sequence[str]
    """Another name the entity's page states ("Donna Paige Marn"); "" where there is none."""

    @property
    def n_entities(self) -> int:
        return len(self.type_of)

    @property
    def n_facts(self) -> int:
        return len(self.subject_of)

    def fact(self, index: int) -> Fact:
        return Fact(
            index,
            int(self.subject_of[index]),
            int(self.property_of[index]),
            int(self.object_of[index]),
        )

    @property
    def stated(self) -> int:
        """Number of facts that pages may state; those from here on follow from rules."""
        return len(self.subject_of)

    def parts(self, fact: int) -> tuple[int, ...]:
        """Rows of the stated facts behind a fact: itself."""
        return (fact,)

    def prop(self, fact: Fact) -> Property:
        return self.schema.properties[fact.property]

    def facts_of(self, entity: int) -> list[Fact]:
        """Facts whose subject is ``entity``, by property then object."""
        lo, hi = int(self.indptr[entity]), int(self.indptr[entity + 1])
        rows = slice(lo, hi)
        columns = self.subject_of[rows], self.property_of[rows], self.object_of[rows]
        return list(map(Fact, range(lo, hi), *(column.tolist() for column in columns)))

    def facts_about(self, entity: int) -> list[Fact]:
        """Relation facts whose object is ``entity``, by property then subject."""
        lo, hi = int(self.inverse_indptr[entity]), int(self.inverse_indptr[entity + 1])
        rows = self.inverse_order[lo:hi]
        columns = rows, self.subject_of[rows], self.property_of[rows], self.object_of[rows]
        return list(map(Fact, *(column.tolist() for column in columns)))

    def objects(self, entity: int, prop: int) -> list[Fact]:
        """Facts ``(entity, prop, ?)``."""
        return [f for f in self.facts_of(entity) if f.property == prop]

    def subjects(self, prop: int, obj: int) -> list[Fact]:
        """Facts ``(?, prop, obj)`` of a relation."""
        return [f for f in self.facts_about(obj) if f.property == prop]

    def aliases(self, entity: int) -> tuple[str, ...]:
        """Accepted other surface forms of an entity, all of them stated on its page."""
        alias = self.alias_of[entity]
        return (alias,) if alias else ()

    def entities_of(self, type_index: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.type_of == type_index)

    def to_networkx(self) -> nx.MultiDiGraph[Any]:
        """The world as a graph. Nodes are entity numbers with ``title, name, type`` and one entry
        per attribute (its written value); edges are relation facts keyed by the relation's name,
        their number as ``fact``."""
        import networkx as nx

        graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph(name=self.schema.name, seed=self.seed)
        types = self.schema.types
        for e in range(self.n_entities):
            graph.add_node(
                e, title=self.titles[e], name=self.names[e], type=types[int(self.type_of[e])].name
            )
        for row, (s, p, o) in enumerate(
            zip(
                self.subject_of.tolist(),
                self.property_of.tolist(),
                self.object_of.tolist(),
                strict=True,
            )
        ):
            prop = self.schema.properties[p]
            if prop.is_relation:
                graph.add_edge(s, o, key=prop.name, fact=row)
            else:
                graph.nodes[s][prop.name] = format_value(prop, o)
        return graph
