"""Registries of items by name, and the plug-ins of other distributions that add to them.

A distribution adds items without touching a file of SearchGym by an entry point::

    [project.entry-points."searchgym.plugins"]
    mine = "mine.plugin:PLUGIN"

where ``PLUGIN`` is a :class:`Plugin`. Its names are then as good as those shipped: in the command
line, in recipes, in files of others, and in ``searchgym list``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from .errors import CardError, unknown

GROUP = "searchgym.plugins"
T = TypeVar("T")
Kind = Literal[
    "engine", "tool", "dialect", "curriculum", "task family", "reward", "generator", "critic",
    "rollout", "signal", "outcome", "advantage", "loss", "data", "schedule", "expert",
    "renderer", "trainer", "command", "section",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
"""Kinds of registered items. "outcome": what the trainer makes of a reward, a recipe's slot
``reward``; "expert": a class that makes an agent of an environment, for a model to imitate;
"renderer": a class of prompt formats; "trainer": a function that trains an agent by its card, which
names it as ``use`` of its table ``train``; "command": a function, or a ``typer.Typer`` of one or
several, for the command line; "section": a function of an item's name and kind (``"envs"``,
``"agents"``, …) that prints more about it after ``searchgym show``."""
FolderKind = Literal["corpora", "agents", "recipes"]


def is_shipped(module: str) -> bool:
    """Return whether a module of this name comes with SearchGym, as does the plug-in of its
    agents."""
    return module.partition(".")[0] in ("searchgym", "searchgym_agents")


class PluginWarning(UserWarning):
    """Warns of a plug-in that cannot be used."""


@dataclass(frozen=True)
class Plugin:
    """Items that a distribution adds."""

    items: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind (of :data:`KINDS`) → name → ``"module:Object"``, imported when it is first used."""
    packages: Sequence[str] = ()
    """Packages whose classes have a line ``registered = "kind:name"``, and whose functions one
    ``@register("kind:name")``; their files are read for such lines, not imported."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name → ``"module:Object"`` of what is an attribute of ``searchgym``, too: ``sg.Name``."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """``"corpora"``, ``"agents"``: a folder with a folder per card; ``"recipes"``: a folder with a
    TOML file per recipe. Environments are added by Gymnasium's own entry point,
    ``gymnasium.envs``."""

    def __post_init__(self) -> None:
        for kind in self.items:
            if kind not in KINDS:
                raise CardError(f"a plug-in's items: {unknown('kind', kind, KINDS)}")
        for kind in self.folders:
            if kind not in get_args(FolderKind):
                known = get_args(FolderKind)
                raise CardError(f"a plug-in's folders: {unknown('kind', kind, known)}")


@cache
def plugins() -> Mapping[str, Plugin]:
    """Entry point → plug-in, in alphabetical order. One that cannot be loaded, or is no
    :class:`Plugin`, is left out with a warning: it must not keep the others from working."""
    loaded: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            plugin = point.load()
        except Exception as error:  # it is code of others, and may fail in any way
            fault = f"{type(error).__name__}: {error}"
        else:
            fault = (
                "" if isinstance(plugin, Plugin) else f"a Plugin is expected, got {plugin!r:.80}"
            )
        if fault:
            warnings.warn(
                f"the plug-in {point.name!r} ({point.value}) is left out: {fault}. Mend or "
                "uninstall the distribution that brings it",
                PluginWarning,
                stacklevel=2,
            )
        else:
            loaded[point.name] = plugin
    return loaded


def plugin_folders(kind: FolderKind) -> list[Path]:
    """Return the folders of one kind that plug-ins add."""
    return [plugin.folders[kind] for plugin in plugins().values() if kind in plugin.folders]


@cache
def added(kind: str) -> Mapping[str, str]:
    """Name → ``"module:Object"`` of the items of one kind that plug-ins add.

    Raises:
        CardError: two plug-ins add the same name.
    """
    found: dict[str, str] = {}
    for name, plugin in plugins().items():
        tables = [plugin.items.get(kind, {})]
        for package in plugin.packages:
            items = registered_in(package).items()
            tables.append({key[1]: path for key, path in items if key[0] == kind})
        for table in tables:
            for item, path in table.items():
                if item in found:
                    raise CardError(
                        f"the plug-in {name!r} adds the {kind} {item!r} ({path}), which "
                        f"{found[item]} is already"
                    )
                found[item] = path
    return found


@cache
def public_names() -> Mapping[str, str]:
    """Name → ``"module:Object"`` of what plug-ins add to the package ``searchgym``; of two with the
    same name the first."""
    return {
        name: path for p in reversed(list(plugins().values())) for name, path in p.names.items()
    }


class Registry(MutableMapping[str, Any]):
    """Name → what it stands for: an object, or its import path ``"module:Object"``.

    Items shipped here come first, then those of plug-ins, which are looked up when a name is asked
    for that is not shipped, or when all are listed.

    Args:
        kind: One of :data:`KINDS`.
        items: The items shipped here.
        package: A package or module whose classes and functions register themselves
            (:func:`register`).

    Raises:
        CardError: a plug-in adds a name that is shipped here.
    """

    def __init__(
        self, kind: Kind, items: Mapping[str, Any] | None = None, package: str = ""
    ) -> None:
        self.kind, self.package = kind, package
        self._items = dict(items or {})

    @property
    def shipped(self) -> Mapping[str, Any]:
        """The items shipped here."""
        if not self.package:
            return self._items
        classes = registered_in(self.package)
        return {**self._items, **{name: path for (_, name), path in classes.items()}}

    def _all(self) -> Mapping[str, Any]:
        shipped, others = self.shipped, added(self.kind)
        if twice := [name for name in others if name in shipped]:
            raise CardError(
                f"a plug-in's {self.kind} {twice[0]!r} ({others[twice[0]]}) has a name that is "
                f"taken by {shipped[twice[0]]}"
            )
        return {**shipped, **others}

    def __getitem__(self, name: str) -> Any:
        if name in self._items:  # the least work first
            return self._items[name]
        shipped = self.shipped
        return shipped[name] if name in shipped else self._all()[name]

    def __setitem__(self, name: str, item: Any) -> None:
        self._items[name] = item

    def __delitem__(self, name: str) -> None:
        del self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


@cache
def registered_in(package: str) -> Mapping[tuple[str, str], str]:
    """(kind, name) → ``"module:Object"`` of every class in a package's files that has a line
    ``registered = "name"`` (kind: ``""``) or ``registered = "kind:name"``, and of every function
    with such a name in ``@register(…)``, ordered by name.

    Raises:
        CardError: two have the same name, or a kind is unknown.
    """
    if (spec := importlib.util.find_spec(package)) is None:  # which imports none of the files
        raise CardError(f"there is no package {package!r}")
    folders = spec.submodule_search_locations
    files = [path for folder in folders or () for path in sorted(Path(folder).glob("*.py"))]
    files = files or [Path(str(spec.origin))]
    classes: dict[tuple[str, str], str] = {}
    for path in files:
        for written, item in _registered(path.read_text(encoding="utf-8")):
            kind, _, name = written.rpartition(":")
            inside = f".{path.stem}" if folders else ""
            where = f"{package}{inside}:{item}"
            if kind and kind not in KINDS:
                raise CardError(f"{where}: {unknown('kind', kind, KINDS)}")
            if (kind, name) in classes:
                raise CardError(f"{name!r} is registered twice: {classes[kind, name]} and {where}")
            classes[kind, name] = where
    return dict(sorted(classes.items(), key=lambda item: item[0][1]))


def register(name: str) -> Callable[[T], T]:
    """Register a function by the line ``@register("name")`` above it, as a class is by its line
    ``registered = "name"``. The line is read, not run, so the name must stand there in full."""

    def mark(item: T) -> T:
        item.registered = name  # type: ignore[attr-defined]
        return item

    return mark


def _registered(source: str) -> Iterator[tuple[str, str]]:
    if "registered = " not in source and "@register(" not in source:
        return
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for line in (*node.decorator_list, *(node.body if isinstance(node, ast.ClassDef) else ())):
            match line:
                case ast.Assign([ast.Name("registered")], ast.Constant(str(name))) | ast.Call(
                    ast.Name("register"), [ast.Constant(str(name))]
                ):
                    yield name, node.name
