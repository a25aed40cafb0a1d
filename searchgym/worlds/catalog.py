"""Where shipped worlds live."""

from __future__ import annotations

from pathlib import Path

from ..cards import catalog
from ..errors import WorldError, unknown
from ..objects import bare_hint, is_path


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
