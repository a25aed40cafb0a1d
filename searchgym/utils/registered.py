"""Finds classes that are registered by standing in a package with a line ``registered = "name"``.

Nothing is listed anywhere: a package's files are read for such lines, not imported, so that a look
at the names loads no library, and making one object imports one file.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from ..errors import CardError


@cache
def registered_in(package: str) -> Mapping[str, str]:
    """Name → ``"module:Class"`` of every class in a package's files that has a name in
    ``registered``, in alphabetical order.

    Raises:
        CardError: two classes have the same name.
    """
    # the package alone is imported: a docstring
    files = [
        path for folder in importlib.import_module(package).__path__
        for path in sorted(Path(folder).glob("*.py"))
    ]  # fmt: skip
    classes: dict[str, str] = {}
    for path in files:
        for name, class_name in _registered(path.read_text(encoding="utf-8")):
            where = f"{package}.{path.stem}:{class_name}"
            if name in classes:
                raise CardError(f"{name!r} is registered twice: {classes[name]} and {where}")
            classes[name] = where
    return dict(sorted(classes.items()))


def _registered(source: str) -> Iterator[tuple[str, str]]:
    """(name, class) for each class of a file with a line ``registered = "name"``."""
    if "registered = " not in source:
        return
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for line in node.body:
            match line:
                case ast.Assign([ast.Name("registered")], ast.Constant(str(name))):
                    yield name, node.name
