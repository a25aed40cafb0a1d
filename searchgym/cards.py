"""The catalogue: folders with a card each, from which everything is registered.

``envs/``, ``corpora/`` and ``agents/searchgym_agents/`` hold a folder per item: ``card.toml``,
``README.md``, data (recipes: ``searchgym.rl.recipe_files``). Adding an item is
adding a folder; third parties name their code by ``use = "package.module:Class"``, and add folders
of cards of their own by a plug-in (:mod:`searchgym.plugins`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .errors import CardError, mistakes, unknown
from .objects import bare_hint, is_path, own_folder
from .plugins import plugin_folders, plugins

Kind = Literal["envs", "corpora", "agents"]
_KEYS: Mapping[Kind, tuple[frozenset[str], frozenset[str]]] = {  # required, optional
    "envs": (
        frozenset({"id", "summary"}),
        frozenset({"aliases", "use", "vector_use", "kwargs", "versions"}),
    ),
    "corpora": (
        frozenset({"id", "kind", "summary"}),
        frozenset({"world", "wording", "data", "licence", "citation", "url", "size", "files",
                   "splits", "use", "get"}),
    ),
    "agents": (
        frozenset({"id", "summary", "use"}),
        frozenset({"kwargs", "train", "evaluate", "citation"}),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Card:
    """One item of the catalogue. ``body``: every key of the file but id and summary."""

    kind: Kind
    id: str
    summary: str
    folder: Path
    body: Mapping[str, Any] = field(default_factory=dict)


def catalog(kind: Kind) -> Path:
    """Folder of a catalogue: inside the installed package, or beside it in a checkout; of agents,
    the package that comes with it as a plug-in."""
    if kind == "agents":
        if "searchgym_agents" not in plugins():
            raise CardError("the agents are missing: install searchgym again (pip install .)")
        return plugins()["searchgym_agents"].folders["agents"]
    package = Path(__file__).resolve().parent
    tried = (package / "_catalog" / kind, package.parent / kind)
    for folder in tried:
        if (folder / "README.md").is_file():
            return folder
    raise CardError(f"the {kind} catalogue is missing; looked in {tried[0]} and {tried[1]}")


def read_card(folder: str | Path, kind: Kind) -> Card:
    """Read and validate the envelope of ``folder/card.toml``."""
    folder = Path(folder)
    path = folder / "card.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CardError(f"{path} is missing; every catalogue folder has a card") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CardError(f"{path}: not valid TOML: {error}") from error
    if found := list(_mistakes(data, kind, folder.name)):
        raise CardError(mistakes(f"{path}", [f"{path}: {line}" for line in found]))
    body = {k: v for k, v in data.items() if k not in ("id", "summary")}
    return Card(kind, data["id"], data["summary"], folder, body)


def _mistakes(data: Mapping[str, Any], kind: Kind, folder: str) -> Iterator[str]:
    required, optional = _KEYS[kind]
    for key in data:
        if key not in required | optional:
            yield unknown("key", key, required | optional)
    for key in sorted(required):
        if key not in data:
            yield f"the key {key!r} is missing"
        elif not isinstance(data[key], str) or not data[key]:
            yield f"{key!r} must be a non-empty string, got {data[key]!r}"
        elif key == "id" and data[key].rsplit("/", 1)[-1] != folder:
            yield f"id {data[key]!r} does not match its folder {folder!r}"


@cache
def cards(kind: Kind) -> Mapping[str, Card]:
    """All cards of the shipped catalogue and of plug-ins by folder name, in alphabetical order.

    Raises:
        CardError: a card has mistakes, or two have the same name.
    """
    found: dict[str, Path] = {}
    shipped = [] if kind == "agents" else [catalog(kind)]
    others = [] if kind == "envs" else plugin_folders(kind)
    for catalogue in [*shipped, *others]:
        for folder in (path.parent for path in catalogue.glob("*/card.toml")):
            if folder.name in found:
                raise CardError(f"two cards in {kind}/ have the name {folder.name!r}: "
                                f"{found[folder.name]} and {folder}")  # fmt: skip
            found[folder.name] = folder
    return {name: read_card(found[name], kind) for name in sorted(found)}


def card(kind: Kind, name: str) -> Card:
    """One card by its folder's name, or by the path of a folder of your own (``./mine``)."""
    bare = name.removeprefix("searchgym/")
    known = cards(kind)
    if bare in known:
        return known[bare]
    if (folder := own_folder(name)) is not None:
        return read_card(folder, kind)
    if is_path(bare) and not Path(bare).exists():
        raise CardError(f"{name}: there is no such folder")
    if is_path(bare):
        raise CardError(f"{name} is no folder with a card.toml, and {kind}/ holds no such card")
    none = "; nor is there a file or folder of that name here" if kind == "corpora" else ""
    raise CardError(unknown(f"card in {kind}/", name, known) + (bare_hint(name) or none))
