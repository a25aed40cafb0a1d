"""The programs of the documentation's page on other frameworks, as they stand there."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / ".site" / "docsite" / "pages" / "train.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```\w+ title=\"([\w.]+)\"\n(.*?)```", PAGE, re.DOTALL))
"""File name → program."""
LINES = 20
"""Most lines of a program that are not blank."""


def run_here(name: str, folder: Path) -> None:
    """Run a program of the page in this process, which has imported its packages before."""
    (folder / name).write_text(PROGRAMS[name])
    runpy.run_path(str(folder / name), run_name="__main__")


def run(name: str, folder: Path, **more: str) -> str:
    """What a program of the page prints, run in a folder of its own.

    Raises:
        AssertionError: it failed; with its errors.
    """
    (folder / name).write_text(PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, name],
        cwd=folder, capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "STEPS": "2", **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
