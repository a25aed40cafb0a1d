"""Progress of long work: bars on a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
from threading import Timer
from time import monotonic
from typing import Any

from rich.progress import Progress, TaskID

FIRST, MOST = 10.0, 60.0
"""Seconds before the first line, and between two lines at the most."""


class LineProgress(Progress):
    """``rich``'s bars. In a pipe or a file, which a bar would fill with control characters, a line
    is written to standard error after ten seconds, and then less and less often, up to once a
    minute: work that says nothing for minutes looks hung."""

    def __init__(self, *columns: Any, **options: Any) -> None:
        super().__init__(*columns, transient=True, **options)
        self.disable = not self.console.is_terminal
        self._began = self._said = monotonic()
        self._pause = FIRST

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._tell(task_id)

    def reset(self, task_id: TaskID, **changes: Any) -> None:
        super().reset(task_id, **changes)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now = monotonic()
        if not self.disable or now - self._said < self._pause:
            return
        self._said, self._pause = now, min(1.5 * self._pause, MOST)
        task = self._tasks[task_id]
        done = f"{task.completed:,.0f}"
        if task.total is not None:
            of = f"{task.percentage:.0f} %" if task.total == 1 else f"{done} of {task.total:,.0f}"
            done = f"{of} {task.fields.get('unit', '')}".rstrip()
        minutes, seconds = divmod(int(now - self._began), 60)
        print(f"{task.description}: {done}, {minutes}:{seconds:02}", file=sys.stderr, flush=True)


def told_later(label: str) -> Timer:
    """Start a timer that writes ``label`` to standard error unless it is cancelled before: for work
    of unknown length without a terminal."""
    timer = Timer(FIRST, lambda: print(label, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    return timer
