"""A knowledge graph in NumPy columns: facts by head, facts by tail, and adjacency."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
NO_TAIL = -1


class Triple(NamedTuple):
    """``head --relation--> tail``. ``id``: its row in the graph's columns. ``tail`` is an entity,
    or ``NO_TAIL`` for a value (a date, a number), which then stands in ``value``."""

    id: int
    head: int
    relation: int
    tail: int
    value: str


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities 0..N-1 and facts 0..F-1 sorted by (head, relation, tail).

    Made by :mod:`searchgym.kgs.build` and :mod:`searchgym.kgs.files`. Values are leaves: they are
    looked up, but no walk goes through them (or everybody born in 1931 would be acquainted).
    """

    name: str
    ids: Sequence[str]
    """Ids of the entities, unique, as the source has them."""
    titles: Sequence[str]
    """Unique names: what results print, and what an agent can say back."""
    labels: Sequence[str]
    """Names (N,) of the entities; homonyms share a label."""
    aliases: Sequence[tuple[str, ...]]
    descriptions: Sequence[str]
    """A sentence or "" each."""
    relations: Sequence[str]
    """Relations as the source writes them: "/film/film/genre", "date_of_birth"."""
    relation_words: Sequence[str]
    """The same in words, unique: "genre", "date of birth"."""
    values: Sequence[str]
    head: IntArray  # (F,)
    relation: IntArray  # (F,)
    tail: IntArray  # (F,) an entity, or ~v for the value values[v]
    source: IntArray  # (F,) row in what the graph was made from (a world's fact)
    indptr: IntArray  # (N + 1,) facts of entity e are indptr[e]:indptr[e + 1]

    @property
    def n_entities(self) -> int:
        return len(self.ids)

    @property
    def n_facts(self) -> int:
        return len(self.head)

    @property
    def n_edges(self) -> int:
        """Facts that join two entities."""
        return int((self.tail >= 0).sum())

    def triple(self, fact: int) -> Triple:
        tail = int(self.tail[fact])
        value = "" if tail >= 0 else self.values[~tail]
        return Triple(
            fact, int(self.head[fact]), int(self.relation[fact]), max(tail, NO_TAIL), value
        )

    def facts(self, entity: int, relation: int | None = None) -> list[Triple]:
        """Facts whose head is ``entity`` (and that have this relation), by relation then tail."""
        lo, hi = int(self.indptr[entity]), int(self.indptr[entity + 1])
        if relation is not None:
            bounds = np.searchsorted(self.relation[lo:hi], [relation, relation + 1])
            lo, hi = lo + int(bounds[0]), lo + int(bounds[1])
        return [self.triple(i) for i in range(lo, hi)]

    def facts_about(self, entity: int, relation: int | None = None) -> list[Triple]:
        """Facts whose tail is ``entity`` (and that have this relation), by relation then head."""
        order, indptr = self._by_tail
        rows = order[int(indptr[entity]) : int(indptr[entity + 1])]
        if relation is not None:
            rows = rows[self.relation[rows] == relation]
        return [self.triple(i) for i in rows.tolist()]

    @cached_property
    def _by_tail(self) -> tuple[IntArray, IntArray]:
        rows = np.flatnonzero(self.tail >= 0)
        order = rows[np.lexsort((self.head[rows], self.relation[rows], self.tail[rows]))]
        return order, _starts(self.tail[order], self.n_entities)

    @cached_property
    def adjacency(self) -> tuple[IntArray, IntArray, IntArray]:
        """``(indptr, other, fact)``: facts between two different entities, from both ends.

        Those of entity e are ``indptr[e]:indptr[e + 1]``, sorted by (other, fact). Shapes: (N + 1,)
        and (2 E,) twice. A fact about itself joins nothing and is left out.
        """
        rows = np.flatnonzero((self.tail >= 0) & (self.tail != self.head))
        here = np.concatenate((self.head[rows], self.tail[rows]))
        other = np.concatenate((self.tail[rows], self.head[rows]))
        fact = np.concatenate((rows, rows))
        order = np.lexsort((fact, other, here))
        return _starts(here[order], self.n_entities), other[order], fact[order]

    @cached_property
    def degree(self) -> IntArray:
        """(N,) facts that join an entity to others."""
        return np.diff(self.adjacency[0])

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex, 16 characters) over facts and names: equal graphs, equal digests."""
        h = hashlib.sha256()
        for column in (self.head, self.relation, self.tail, self.source):
            h.update(np.ascontiguousarray(column, "<i8").data)
        texts = (self.ids, self.titles, self.labels, self.descriptions, self.relations, self.values)
        for column_of_text in texts:
            for text in column_of_text:
                h.update(text.encode("utf-8", "surrogatepass") + b"\0")
            h.update(b"\1")
        for names in self.aliases:
            h.update("\0".join(names).encode("utf-8", "surrogatepass") + b"\1")
        return h.hexdigest()[:16]

    def in_words(self, triple: Triple) -> str:
        """One fact in words: "Inception — director: Christopher Nolan"."""
        tail = triple.value if triple.tail < 0 else self.titles[triple.tail]
        return f"{self.titles[triple.head]} — {self.relation_words[triple.relation]}: {tail}"


def _starts(keys: IntArray, n: int) -> IntArray:
    """(n + 1,) places at which each key 0..n-1 begins in the sorted ``keys``."""
    return np.searchsorted(keys, np.arange(n + 1))
