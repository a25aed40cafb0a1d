"""Helpers for all parts: whole files, bytes by key on disk, an event loop, an HTTP client."""

from __future__ import annotations

import gc
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """A package whose public names are not hidden by its modules of the same names.

    Python sets a module as an attribute of its package once it is imported, so without this
    ``reader.examples`` would be a function at first and a module ever after.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        hides = isinstance(value, ModuleType) and name in self.__dict__.get("__all__", ())
        if not hides or value.__name__ != f"{self.__name__}.{name}":
            super().__setattr__(name, value)


_IMPORT = re.compile(r"^from \.([\w.]*) import (\w+) as \w+(  # internal)?$", re.MULTILINE)


def attach(
    package: str, *, others: Callable[[], Mapping[str, str]] = dict
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package, whose public names are
    written once: as imports in the file ``__init__.pyi`` beside it, which type checkers read, too.
    Names marked ``# internal`` are there for other packages and their tests, but not documented.

    Args:
        package: The package's ``__name__``.
        others: Returns name → ``"module:Object"`` of attributes that others add, asked for last.
    """
    this = sys.modules[package]
    this.__class__ = _Package
    stub = Path(str(this.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    found = _IMPORT.findall(stub)
    home = {name: module for module, name, _ in found if module}
    modules = {name for module, name, _ in found if not module}

    def get(name: str) -> Any:
        if name in home:
            module = importlib.import_module(f".{home[name]}", package)
            if not hasattr(module, name):  # a module of a package within
                importlib.import_module(f"{module.__name__}.{name}")
            value = getattr(module, name)
            this.__dict__[name] = value  # from now on without this call
            return value
        if name in modules:
            return importlib.import_module(f".{name}", package)
        if not name.startswith("_") and name in others():
            path, _, thing = others()[name].partition(":")
            return getattr(importlib.import_module(path), thing)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*this.__dict__, *home, *modules, *others()})

    return get, names, [name for module, name, internal in found if module and not internal]


_others_freeze = False


@contextmanager
def collecting_later(many: bool = True) -> Iterator[None]:
    """Make Python's garbage collector wait while objects are made that all stay: it would walk
    through them again and again, a seventh of the time for a world, most of it for a million hits.

    Args:
        many: Count them as old afterwards, as the collector's own walk would do. Freezing and
            unfreezing does it at once; in a process where something was frozen by others, it is
            left out. That is asked until it is so: to count what is frozen takes as long as to
            walk through it, a tenth of a second for two million objects.
    """
    global _others_freeze
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on and many and not _others_freeze:
            _others_freeze = gc.get_freeze_count() > 0
            if not _others_freeze:
                gc.freeze()
                gc.unfreeze()
        if on:
            gc.enable()
