"""Recipes as files: ``agents/searchgym_agents/methods/<name>.toml``, or a TOML file of your own.

A file has one entry per slot (``advantage``, ``loss``, …), the tables ``[train]``, ``[env]``,
``[critic]``, ``[sampling]`` and ``[reference]``, and ``[doc]``, which is for people. Reading one
loads no library.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from .. import objects
from ..errors import CardError, unknown
from ..objects import bare_hint
from ..plugins import plugin_folders


@dataclass(frozen=True, slots=True)
class RecipeDoc:
    """Documentation of a recipe: its table ``[doc]``."""

    summary: str
    """The method in one line."""
    source: str
    """Authors, title, arXiv number."""
    formula: str
    """Formula that is computed, with the symbols of the source."""
    ours: str = ""
    """Choices that the source does not state or makes differently."""
    notes: str = ""
    """Further notes for users."""
    results: str = ""
    """Measured results and their conditions."""
    systems: tuple[str, ...] = field(default=())
    """Published systems that this recipe is, or is a part of."""
    missing: str = ""
    """Words for what of them is not here, where ``systems.toml`` does not say it."""

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> RecipeDoc:
        """Check and take over a table; ``CardError`` names what is wrong in ``where``."""
        known = {f.name for f in fields(cls)}
        for key, value in table.items():
            if key not in known:
                raise CardError(f"{where}: {unknown('key of [doc]', key, known)}")
            kind = list if key == "systems" else str
            if not isinstance(value, kind) or not value:
                raise CardError(f"{where}: [doc] {key} must be a {kind.__name__} with something "
                                f"in it, got {value!r}")  # fmt: skip
        for key in ("summary", "source", "formula"):
            if key not in table:
                raise CardError(f"{where}: [doc] has no {key!r}")
        return cls(**{**table, "systems": tuple(table.get("systems", ()))})


K3_CUT = (
    "k3 is cut at 10, as in verl's code: a token that is over 2.62 nats likelier under the "
    "reference counts 10 and has gradient 0"
)
"""Sentence on the pages of all recipes with this loss."""


@cache
def recipe_files() -> Mapping[str, Path]:
    """Name → file of every shipped recipe and of those of plug-ins, in alphabetical order.

    Raises:
        CardError: two recipes have the same name.
    """
    found: dict[str, Path] = {}
    for folder in plugin_folders("recipes"):
        for path in folder.glob("*.toml"):
            if path.stem in found:
                raise CardError(f"two recipes are called {path.stem!r}: {found[path.stem]}, {path}")
            found[path.stem] = path
    return dict(sorted(found.items()))


def shipped() -> tuple[str, ...]:
    """Names of the recipes of :func:`recipe_files`, in alphabetical order."""
    return tuple(recipe_files())


def read(spec: str | Path) -> dict[str, Any]:
    """The tables of a recipe, without ``[doc]``.

    Args:
        spec: The name of a shipped recipe, or the path of a TOML file. A bare name always means
            the shipped one; a path has a separator or ends in ``.toml``.

    Raises:
        CardError: neither; or the file cannot be read or is not valid TOML.
    """
    return {key: value for key, value in _load(_path(spec)).items() if key != "doc"}


def document(spec: str | Path) -> RecipeDoc | None:
    """Read a recipe's table ``[doc]``; None for a file without one."""
    path = _path(spec)
    table = _load(path).get("doc")
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise CardError(f"{path}: doc is a table, got {table!r}")
    doc = RecipeDoc.of(table, str(path))
    losses = _load(path).get("loss", ())
    for loss in [losses] if isinstance(losses, str | Mapping) else losses:
        given = {"use": loss} if isinstance(loss, str) else loss
        if given.get("use") == "kl" and given.get("how", "k3") == "k3":
            return replace(doc, formula=f"{doc.formula}. {K3_CUT}")
    return doc


def is_path(spec: str | Path) -> bool:
    """Check whether a recipe is named by the path of a file rather than by a shipped name."""
    return isinstance(spec, Path) or spec.endswith(".toml") or objects.is_path(spec)


def _path(spec: str | Path) -> Path:
    if is_path(spec):
        return Path(spec)
    if spec not in shipped():
        raise CardError(
            unknown("recipe", str(spec), shipped())
            + ", or the path of a TOML file"
            + bare_hint(str(spec))
        )
    return recipe_files()[str(spec)]


def _load(path: Path) -> dict[str, Any]:
    """The tables of a file, the caller's to change."""
    return copy.deepcopy(_shipped(path)) if path in recipe_files().values() else _parsed(path)


@cache
def _shipped(path: Path) -> dict[str, Any]:
    """Shipped files stay as they are; the laboratory reads all of them again and again."""
    return _parsed(path)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CardError(f"{path}: not valid TOML: {error}") from error
