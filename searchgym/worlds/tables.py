"""A world's schema as tables of a relational database: where each property stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .schema import Property, Schema


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table and its columns: name → what it holds (a kind of value, or the table whose titles
    it holds)."""

    name: str
    columns: Mapping[str, str]

    def __str__(self) -> str:
        listed = (f"{name} {kind}" for name, kind in self.columns.items())
        return f"{self.name}({', '.join(listed)})"


class Tables:
    """One table per type and one per relation with several objects.

    Tables of types hold ``title`` (unique), ``name`` and every property with at most one value,
    those of relations two titles, the subject's first.
    """

    def __init__(self, schema: Schema) -> None:
        self.by_name: dict[str, DatabaseTable] = {}
        """Name → table, those of types first."""
        self.place: dict[int, tuple[str, str]] = {}
        """Index of a property → its table and the column of its objects or values."""
        for kind in schema.types:
            columns = {"title": "text", "name": "text"}
            for i, prop in enumerate(schema.properties):
                if prop.source == kind.name and prop.functional:
                    column = _free(prop.name, columns)
                    columns[column] = _kind(prop)
                    self.place[i] = kind.name, column
            self.by_name[kind.name] = DatabaseTable(kind.name, columns)
        for i, prop in enumerate(schema.properties):
            if not prop.functional:
                name = _free(prop.name, self.by_name)
                target = str(prop.target)
                other = target if target != prop.source else f"other_{target}"
                self.by_name[name] = DatabaseTable(name, {prop.source: prop.source, other: target})
                self.place[i] = name, other


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _kind(prop: Property) -> str:
    if prop.target is not None:
        return prop.target
    return {"date": "date", "category": "text"}.get(prop.value or "", "integer")
