"""Knowledge graphs from triples, from generated worlds, from ``networkx``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..worlds.values import format_value
from ..worlds.world import World
from .graph import KnowledgeGraph
from .names import relation_words, unique_titles

if TYPE_CHECKING:
    import networkx as nx

NAME_KEYS = ("title", "label", "name")
RELATION_KEYS = ("relation", "label", "type", "predicate", "name")
RELATED = "related to"
"""The relation of edges that do not say which."""


class Entity(NamedTuple):
    """The description of an entity beside its facts."""

    label: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    title: str = ""
    """Unique name; "" lets the graph choose one."""


def from_triples(
    triples: Iterable[tuple[str, str, str]],
    *,
    name: str,
    entities: Mapping[str, Entity] | None = None,
    literals: Collection[str] = (),
) -> KnowledgeGraph:
    """A graph of (head, relation, tail) texts; heads and tails are ids.

    Entities are numbered as in ``entities``, the others after them by first appearance; relations
    by first appearance. Repeated triples count once. Tails of the relations in ``literals`` are
    values. Raises ``DataError`` if there is no triple.
    """
    described = dict(entities or {})
    number = {key: i for i, key in enumerate(described)}
    relation_of: dict[str, int] = {}
    value_of: dict[str, int] = {}
    rows: dict[tuple[int, int, int], None] = {}
    plain = frozenset(literals)
    for head, relation, tail in triples:
        h = number.setdefault(head, len(number))
        r = relation_of.setdefault(relation, len(relation_of))
        if relation in plain:
            t = ~value_of.setdefault(tail, len(value_of))
        else:
            t = number.setdefault(tail, len(number))
        rows[h, r, t] = None
    if not rows:
        raise DataError(f"knowledge graph {name!r} has no triples")
    if missing := sorted(plain - set(relation_of)):
        raise DataError(f"knowledge graph {name!r} has no relation {missing[0]!r} for 'literals'")
    known = [described.get(key) or Entity(key) for key in number]
    table = np.array(list(rows), np.int64)
    return assemble(
        name, list(number), known, list(relation_of), list(value_of), table, np.arange(len(table))
    )


def assemble(
    name: str,
    ids: list[str],
    entities: Sequence[Entity],
    relations: list[str],
    values: list[str],
    table: NDArray[np.int64],
    source: NDArray[np.int64],
) -> KnowledgeGraph:
    """Sort the (F, 3) table of (head, relation, tail) and put the columns together."""
    head, relation, tail = table.reshape(-1, 3).T
    order = np.lexsort((np.where(tail >= 0, tail, ~tail), relation, head))
    head, relation, tail, source = (
        np.ascontiguousarray(c[order], np.int64) for c in (head, relation, tail, source)
    )
    for column in (head, relation, tail, source):
        column.flags.writeable = False
    titles = [e.title for e in entities]
    if not all(titles):
        titles = unique_titles([e.label for e in entities], ids)
    return KnowledgeGraph(
        name, ids, titles, [e.label for e in entities], [e.aliases for e in entities],
        [e.description for e in entities], relations, relation_words(relations), values,
        head, relation, tail, source, np.searchsorted(head, np.arange(len(ids) + 1)),
    )  # fmt: skip


def from_world(
    world: World, *, facts: NDArray[np.int64] | None = None, name: str | None = None
) -> KnowledgeGraph:
    """A generated world as a graph: entity and relation numbers are the world's own.

    ``facts``: rows to keep (those that a corpus states); default all. ``source`` holds the rows.
    Attributes become values, written as in style 0 of ``worlds.values``.
    """
    rows = np.arange(world.n_facts) if facts is None else np.asarray(facts, np.int64)
    properties = world.schema.properties
    tails = np.empty(len(rows), np.int64)
    value_of: dict[str, int] = {}
    columns = (world.property_of[rows].tolist(), world.object_of[rows].tolist())
    for i, (p, o) in enumerate(zip(*columns, strict=True)):
        prop = properties[p]
        if prop.is_relation:
            tails[i] = o
        else:
            tails[i] = ~value_of.setdefault(format_value(prop, o), len(value_of))
    table = np.empty((len(rows), 3), np.int64)
    table[:, 0], table[:, 1], table[:, 2] = world.subject_of[rows], world.property_of[rows], tails
    entities = [
        Entity(world.names[e], "", world.aliases(e), world.titles[e])
        for e in range(world.n_entities)
    ]
    return assemble(
        name or f"{world.schema.name}-{world.seed}", list(world.titles), entities,
        [p.name for p in properties], list(value_of), table, rows,
    )  # fmt: skip


def from_networkx(graph: nx.Graph[Any], *, name: str | None = None) -> KnowledgeGraph:
    """Any ``networkx`` graph. Nodes must have distinct ``str()``, which become ids.

    A node's name is its attribute "title", "label" or "name" (a further one is an alias), its
    description "description"; other attributes are values. An edge's relation is its attribute
    "relation", "label", "type", "predicate" or "name", else its key if that is text, else
    "related to". Undirected edges go from the node that comes first. Raises ``DataError``.
    """
    ids = [str(node) for node in graph]
    if len(set(ids)) != len(ids):
        raise DataError("nodes of a graph need distinct str(); rename them")
    entities: dict[str, Entity] = {}
    triples: list[tuple[str, str, str]] = []
    attributes: list[tuple[str, str, str]] = []
    for node, data in graph.nodes(data=True):
        key = str(node)
        called = [str(data[k]) for k in NAME_KEYS if data.get(k)] or [key]
        aliases = tuple(dict.fromkeys(n for n in called[1:] if n != called[0]))
        entities[key] = Entity(called[0], str(data.get("description", "")), aliases)
        for k, v in data.items():
            if k not in (*NAME_KEYS, "description") and isinstance(v, str | int | float):
                attributes.append((key, str(k), str(v)))
    order = {key: i for i, key in enumerate(ids)}
    edges: Any = graph.edges  # its signature depends on the kind of graph
    keyed = edges(keys=True, data=True) if graph.is_multigraph() else edges(data=True)
    for head, tail, *rest in keyed:
        ends = [str(head), str(tail)]
        if not graph.is_directed():
            ends.sort(key=order.__getitem__)
        triples.append((ends[0], _relation(rest[:-1], rest[-1]), ends[1]))
    relations = {r for _, r, _ in triples}
    # A value and an edge may bear the same name; as relations they are two.
    plain = [(h, f"{r} (value)" if r in relations else r, v) for h, r, v in attributes]
    return from_triples(
        [*triples, *plain], name=name or str(graph.name or "graph"), entities=entities,
        literals={r for _, r, _ in plain},
    )  # fmt: skip


def _relation(key: Sequence[Any], data: Mapping[str, Any]) -> str:
    for k in RELATION_KEYS:
        if isinstance(data.get(k), str) and data[k]:
            return str(data[k])
    return key[0] if key and isinstance(key[0], str) else RELATED
