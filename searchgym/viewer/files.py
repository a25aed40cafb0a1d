"""Finds the files of a run that hold trajectories, and whose they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .formats import EXPECTED, detect

MOST_FILES = 2000
PATTERNS = ("*.jsonl", "*.log", "*.txt")
_STEP = re.compile(r"(?:step|checkpoint|iter|global_step)[-_.]?(\d+)", re.IGNORECASE)
_ENDINGS = (".jsonl", ".log", ".txt", ".trajectories", ".rollouts")


class Source(NamedTuple):
    """A file, and what its name says of the episodes in it."""

    path: Path
    name: str
    """Relative to the run."""
    kind: str
    """A format's name."""
    agent: str
    step: int | None


def sources(run: Path) -> list[Source]:
    """The files of a folder (or the one file) that hold trajectories, by name.

    Raises:
        DataError: there are none, or the one file is of no known format.
    """
    if run.is_file():
        return [_source(run, run.parent, detect(run))]
    if not run.is_dir():
        raise DataError(f"{run} is neither a file nor a folder; give a run: searchgym view RUN")
    paths = sorted({p for pattern in PATTERNS for p in run.rglob(pattern) if p.is_file()})
    if len(paths) > MOST_FILES:
        raise DataError(f"{run} holds {len(paths):,} files; give one run, of up to {MOST_FILES:,}")
    readable, wrong = [], ""
    for path in paths:
        try:
            readable.append(_source(path, run, detect(path)))
        except DataError as error:  # a log of steps beside trajectories is nothing wrong
            wrong = wrong or str(error)
    if not readable:
        raise DataError(
            f"{run} holds no trajectories" + (f" ({wrong})" if wrong else f"; {EXPECTED}")
        )
    return readable


def _source(path: Path, run: Path, kind: str) -> Source:
    name = path.relative_to(run).as_posix()
    stem = path.name
    while stem.endswith(_ENDINGS):
        stem = stem.rpartition(".")[0]
    step = _STEP.search(name)
    if stem.isdigit():  # verl names its dumps by step
        return Source(path, name, kind, path.parent.name, int(stem))
    if stem in ("results", "rollouts", "traces"):  # names of what they hold, not of who played
        stem = path.resolve().parent.name
    agent = _STEP.sub("", stem).strip("-_.") or stem
    return Source(path, name, kind, agent, int(step.group(1)) if step else None)
