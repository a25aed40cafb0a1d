"""Journal of an evaluation in a folder: a run killed at any point can be continued.

``searchgym eval ENV -a AGENT --out DIR`` writes, for each agent::

    DIR/<agent>.json                 the EvalResult: settings, one row per question, means.
                                     ``complete`` is false, and rows may be missing, until the end
    DIR/<agent>.trajectories.jsonl   one Trajectory a line, appended as episodes finish; when all
                                     are there, put into the order of the questions
    DIR/<agent>.closed-book.json, …  the same questions without tools
    DIR/<agent>.seed-<n>.json, …     further samples of each question (``--samples``)
    DIR/judge.sqlite                 what the judge model said, by content
    DIR/machine.json                 the machine of the last start

An episode is recorded when its line is on disk; a restart plays only the others. Rows are not kept
twice: a trajectory is replayed and measured. A later evaluation of more questions plays only the
new ones, because an episode does not depend on the other questions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

from ..core.trajectory import from_line
from ..errors import DataError, EvaluationError
from ..storage.files import lock_file, writing
from ..types import Task
from ..utils.trust import registered_only
from .comparison import differing, told
from .metrics import Row, row_of
from .result import EvalResult

TRAJECTORIES = ".trajectories.jsonl"
OTHERWISE = "choose another folder (--out), or replace what is there (--fresh)"
"""Advice for a folder that holds something else."""
MAY_DIFFER = ("batch", "judge", "environment.data_dir")
"""Settings that do not change what is played."""


def trajectories_of(result: Path) -> Path:
    """The file of trajectories beside a result's."""
    return result.with_name(result.name.removesuffix(".json") + TRAJECTORIES)


def finished(path: Path, expected: EvalResult) -> EvalResult | None:
    """The result of that run if ``path`` holds all of it; None if episodes are missing, as where it
    was asked fewer questions (whether they are among those asked now, :meth:`Journal.check` says).

    Raises:
        EvaluationError: the folder holds another run under this name.
    """
    if not path.is_file():
        if trajectories_of(path).is_file():
            raise EvaluationError(
                f"{trajectories_of(path)} holds episodes, but there is no {path.name} that says "
                f"of which run; {OTHERWISE}"
            )
        return None
    try:
        known = EvalResult.load(path)
    except EvaluationError as error:
        raise EvaluationError(f"{error}; {OTHERWISE}") from error
    diffs = differing(known.settings, expected.settings, MAY_DIFFER)
    for name in ("agent", "set", "seed"):
        if (there := getattr(known, name)) != (here := getattr(expected, name)):
            diffs[name] = (there, here)
    grown = _count(known) < _count(expected)
    if grown:
        diffs = {name: pair for name, pair in diffs.items() if not name.startswith("questions.")}
    if diffs:
        raise EvaluationError(
            f"{path} holds a run with other settings, there and here: {told(diffs)}; {OTHERWISE}"
        )
    return known if known.complete and not grown else None


def _count(result: EvalResult) -> int:
    return int(result.settings.get("questions", {}).get("count", 0))


def discard(path: Path) -> None:
    """Delete a result and its trajectories."""
    trajectories_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


class Journal:
    """A file of trajectories that is written episode by episode; one process at a time.

    Opening reads what is there and cuts off a last line that a kill left half-written. ``replay``:
    what :meth:`Trajectory.replay` takes, where the reward holds parts of one's own.

    Raises:
        DataError: a broken line before the last, or a question that occurs twice.
        EvaluationError: another process is writing it.
    """

    def __init__(self, path: Path, **replay: Any) -> None:
        self.path = path
        self._replay = replay
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        _lock(self._file, path)
        self._where: dict[str, tuple[int, int]] = {}
        self.rows: dict[str, Row] = {}
        """Task id → row of every recorded episode."""
        self._asked: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Task id → question and accepted answers of every episode found on opening."""
        try:
            self._read()
        except BaseException:  # Ctrl-C, too: no caller gets this object to close it
            self._file.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        end = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):  # the kill came while it was written
                break
            played = from_line(line, f"{self.path}:{number}")
            if played.task_id in self.rows:
                raise DataError(f"{self.path}:{number}: question {played.task_id!r} occurs twice")
            with registered_only(self.path):
                self.rows[played.task_id] = row_of(played.replay(**self._replay), played.usage)
            self._asked[played.task_id] = played.question, tuple(played.answers)
            self._where[played.task_id] = (end, len(line))
            end += len(line)
        self._file.truncate(end)
        self._end = end

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse to go on with other questions than these: ``EvaluationError`` if an episode found
        on opening answers none of them."""
        known = {task.id: (task.question, tuple(task.answers)) for task in tasks}
        strange = [key for key, asked in self._asked.items() if known.get(key) != asked]
        if strange:
            raise EvaluationError(
                f"{self.path} holds {len(self._asked)} episodes, of which {len(strange)} (the "
                f"first: {strange[0]!r}) answer none of the {len(known)} questions asked now; a "
                "run is continued with the same questions and more (twice as many --questions "
                f"hold all that were asked); or {OTHERWISE}"
            )

    def add(self, played: Sequence[tuple[Row, str]]) -> None:
        """Record finished episodes, each a row and a trajectory's line; on disk on return."""
        lines = [line.encode() for _, line in played]
        with writing(self.path):
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        for (row, _), line in zip(played, lines, strict=True):
            self.rows[row.task_id] = row
            self._where[row.task_id] = (self._end, len(line))
            self._end += len(line)

    def forget(self, task_ids: Sequence[str]) -> None:
        """Drop recorded episodes, to be played again."""
        dropped = set(task_ids)
        self._rewrite([task_id for task_id in self.rows if task_id not in dropped])

    def sort(self, task_ids: Sequence[str]) -> None:
        """Put the lines into the order of the questions. The old file stays until the new one is
        whole, so a kill changes nothing."""
        if list(self._where) != (order := [i for i in task_ids if i in self._where]):
            self._rewrite(order)

    def _rewrite(self, order: Sequence[str]) -> None:
        partial = self.path.with_name(self.path.name + ".part")
        with partial.open("wb") as file:
            for line in self._lines(order):
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        new = partial.open("rb+")
        _lock(new, self.path)
        new.seek(0, os.SEEK_END)
        os.replace(partial, self.path)
        self._file.close()
        self._file, self._end = new, 0
        where, self._where = self._where, {}
        self.rows = {task_id: self.rows[task_id] for task_id in order}
        for task_id in order:
            size = where[task_id][1]
            self._where[task_id] = (self._end, size)
            self._end += size

    def _lines(self, order: Sequence[str]) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            for task_id in order:
                at, size = self._where[task_id]
                file.seek(at)
                yield file.read(size)

    def close(self) -> None:
        """Let another process write."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _lock(file: IO[Any], path: Path) -> None:
    """Refuse a second writer. A killed process holds no lock."""
    try:
        lock_file(file)
    except OSError:
        file.close()
        raise EvaluationError(
            f"{path} is being written by another process; wait for it, or use another folder"
        ) from None
