"""The command line as an object, and the paths of its commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from searchgym.cli.main import build


@cache
def application() -> Any:
    """For help pages, which change nothing in it."""
    return typer.main.get_command(build())


def commands() -> list[tuple[str, ...]]:
    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, child in getattr(command, "commands", {}).items():
            yield (*path, name)
            yield from walk(child, (*path, name))

    found = list(walk(application(), ()))
    assert len(found) > 12
    return found
