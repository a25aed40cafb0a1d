"""Where shipped worlds live, and building a world from its card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards import Card, card, catalog
from ..errors import CardError, WorldError, unknown
from ..objects import bare_hint, is_path

if TYPE_CHECKING:
    from .world import World


def shipped_worlds() -> tuple[str, ...]:
    """Ids of the generated worlds in the catalogue, sorted."""
    return tuple(sorted(p.parent.name for p in catalog("corpora").glob("*/schema.toml")))


def schema_path(source: str | Path) -> Path:
    """The TOML file behind a shipped world's id, a folder or a path; ``WorldError`` if none."""
    if isinstance(source, str) and not is_path(source) and not source.endswith(".toml"):
        shipped = catalog("corpora") / source / "schema.toml"
        if shipped.is_file():
            return shipped
        raise WorldError(
            f"{unknown('world', source, shipped_worlds())}; or give a schema.toml"
            f"{bare_hint(source)}"
        )
    path = Path(source)
    if path.is_dir():
        path = path / "schema.toml"
    if path.is_file():
        return path
    shown = ", ".join(shipped_worlds())
    raise WorldError(f"no schema at {path}; give the path of a schema.toml or one of: {shown}")


def world_from_card(source: str | Card, **overrides: Any) -> World:
    """Generate the world a card describes.

    ``source`` is a shipped id, the path of a card's folder, or a card; ``overrides`` replace
    entries of its ``[world]`` table: the keywords of ``generate``, and ``schema``, a file in the
    card's folder, a path, or a shipped world's id. Raises ``CardError`` or ``WorldError``.
    """
    from .generate import generate
    from .loader import load_schema

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
