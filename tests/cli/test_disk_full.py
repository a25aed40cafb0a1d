"""A disk that is full: one line and an exit code, what was written stays, and the same command
goes on once there is room. A limit on the size of files stands for the full disk: the system
refuses the write in the middle of a file just so (EFBIG in place of ENOSPC)."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from searchgym.storage import out_of_space

from .files import options
from .forked import Finished, Server

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def limited(forks: Server) -> Callable[..., Finished]:
    """The command line in a process whose files can hold so many kilobytes (0: anything)."""
    return lambda kilobytes, *arguments: forks.run(*arguments, cwd=ROOT, most=kilobytes << 10)


def said(done: Finished) -> str:
    """The one line, of a command that failed."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("searchgym: "), done.stderr
    return last


def test_eval(limited: Callable[..., Finished], tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    command = ["eval", "SearchQA-v0", "-a", "random", "-s", "world.entities=400", "-s",
               'tasks={"simple": 40}', "--closed-book", "none", "--out"]  # fmt: skip
    # without a limit first, which compiles what is compiled once a machine
    assert limited(0, *command, whole).returncode == 0
    line = said(limited(16, *command, run))
    assert "File too large" in line or "too large" in line
    (file,) = run.glob("*.jsonl")
    assert 0 < file.stat().st_size <= 16 << 10
    assert limited(0, *command, run).returncode == 0
    names = sorted(path.name for path in whole.glob("*.jsonl"))
    assert names == sorted(path.name for path in run.glob("*.jsonl"))
    for name in names:
        assert (run / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow  # a checkpoint that does not fit: tests/rl/test_run_folder.py
def test_train_and_report(
    limited: Callable[..., Finished],
    world: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    line = said(limited(48, "train", "grpo", *options(world, "--steps", 2, "--out", run)))
    assert "too large" in line
    done = limited(0, "train", "grpo", *options(world, "--steps", 2, "--out", run))
    assert done.returncode == 0, done.stderr
    assert "too large" in said(limited(8, "report", run, "--out", tmp_path / "report.html"))
    assert limited(0, "report", run, "--out", tmp_path / "report.html").returncode == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), "a/b: the disk is full"),
        (OSError(errno.EFBIG, "File too large"), "a file would be too large"),
        (sqlite3.OperationalError("database or disk is full"), "the disk is full"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "the disk is full"),
        (OSError(errno.ENOENT, "No such file or directory"), None),
        (ValueError("full"), None),
    ],
)
def test_what_counts_as_full(error: Exception, said: str | None) -> None:
    for told in (error, _wrapped(error)):
        found = out_of_space(told)
        assert (found is None) == (said is None)
        assert said is None or (found or "").startswith(said)


def _wrapped(error: Exception) -> Exception:
    try:
        try:
            raise error
        except Exception as inner:
            raise TypeError("while saving") from inner
    except TypeError as outer:
        return outer
