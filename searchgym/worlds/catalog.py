"""Building a world from its card."""

from __future__ import annotations

from typing import Any

from ..cards import Card, card
from ..errors import CardError
from .generate import generate
from .loader import load_schema, schema_path, shipped_worlds
from .world import World

__all__ = ["schema_path", "shipped_worlds", "world_from_card"]


def world_from_card(source: str | Card, **overrides: Any) -> World:
    """Generate the world a card describes.

    ``source`` is a shipped id, the path of a card's folder, or a card; ``overrides`` replace
    entries of its ``[world]`` table: the keywords of ``generate``, and ``schema``, a file in the
    card's folder, a path, or a shipped world's id. Raises ``CardError`` or ``WorldError``.
    """
    found = source if isinstance(source, Card) else card("corpora", source)
    where = found.folder / "card.toml"
    if found.body.get("kind") != "world":
        raise CardError(f"{where}: kind must be 'world', got {found.body.get('kind')!r}")
    options = dict(found.body.get("world", {})) | overrides
    schema = options.pop("schema", "schema.toml")
    if isinstance(schema, str) and (found.folder / schema).is_file():
        schema = found.folder / schema
    try:
        return generate(load_schema(schema), **options)
    except TypeError as error:
        raise CardError(f"{where}: [world]: {error}") from None
