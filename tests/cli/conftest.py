"""Running the command line inside the test process, with its exit code and both channels."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from searchgym import objects
from searchgym.cli.main import run

from .files import world
from .forked import forks

__all__ = ["forks", "world"]  # fixtures

SMALL = ["-s", "world.entities=400", "-s", 'tasks={"simple": 12, "chain-2": 12}']
"""Overrides that make any generated environment small."""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """``cli("list", "envs", stdin="…")`` → exit code, output, error output."""
    monkeypatch.delenv("SEARCHGYM_TRACEBACK", raising=False)
    monkeypatch.setattr("searchgym.utils.progress.FIRST", 600.0)  # the machine may be busy
    # a command also looks for modules where it is called; the next test is called elsewhere
    monkeypatch.setattr(objects, "_FOLDERS", [])
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: object, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return Done(int(stop.value.code or 0), out, err)

    return call
