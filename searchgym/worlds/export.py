"""A world for others: its digest, equal on every machine, and JSON lines and GraphML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .loader import schema_to_dict
from .values import format_value
from .world import World

COLUMNS = (
    "type_of", "subject_of", "property_of", "object_of", "indptr", "inverse_order",
    "inverse_indptr", "facet_of",
)  # fmt: skip
TEXTS = ("titles", "names", "alias_of")


def world_digest(world: World) -> str:
    """SHA-256 (hex, 16 characters) over schema, columns and texts: equal worlds, equal digests.

    The schema's rules do not count: they change neither a fact nor a page.
    """
    h = hashlib.sha256()
    schema = {k: v for k, v in schema_to_dict(world.schema).items() if k != "rules"}
    h.update(json.dumps(schema, sort_keys=True).encode())
    h.update(str(world.seed).encode())
    for name in COLUMNS:
        column = getattr(world, name)
        # Byte order is fixed, so that the digest is the same on every machine.
        h.update(name.encode() + np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
    for name in TEXTS:
        h.update(name.encode())
        for text in getattr(world, name):
            h.update(text.encode() + b"\n")
    return h.hexdigest()[:16]


def entity_records(world: World) -> Iterator[dict[str, Any]]:
    """One JSON-ready mapping per entity: id, title, name, type, aliases, facts.

    A fact is ``{"property", "object", "value"}``: ``object`` is the other entity's number for
    relations and null for attributes, ``value`` the object's title or the written value.
    """
    types = world.schema.types
    for e in range(world.n_entities):
        facts = []
        for fact in world.facts_of(e):
            prop = world.prop(fact)
            facts.append(
                {
                    "property": prop.name,
                    "object": fact.object if prop.is_relation else None,
                    "value": world.titles[fact.object]
                    if prop.is_relation
                    else format_value(prop, fact.object),
                }
            )
        yield {
            "id": e,
            "title": world.titles[e],
            "name": world.names[e],
            "type": types[int(world.type_of[e])].name,
            "aliases": list(world.aliases(e)),
            "facts": facts,
        }


def to_jsonl(world: World, path: str | Path) -> int:
    """Write ``entity_records`` as JSON lines; returns how many."""
    count = 0
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for record in entity_records(world):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def to_graphml(world: World, path: str | Path) -> None:
    """Write the ``networkx`` graph as GraphML (Gephi, yEd, Cytoscape read it)."""
    import networkx as nx

    nx.write_graphml(world.to_networkx(), str(path))
