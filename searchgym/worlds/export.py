"""A world for other tools: ``networkx``, JSON lines, GraphML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .values import format_value
from .world import World


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
