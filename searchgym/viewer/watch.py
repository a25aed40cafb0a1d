"""The live page of a training: curves, warnings, what is left, the newest rollouts.

It is served beside the viewer's pages, to which the rollouts lead. The page asks anew every two
seconds; the folder is only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from . import query
from .app import Viewer, application
from .index import Index
from .training import TrainingRun

if TYPE_CHECKING:
    from starlette.applications import Starlette

NEWEST = 8
"""Rollouts on the page."""


class RunWatcher(Viewer):
    """The viewer of a run that may hold no trajectory yet, and its live page."""

    def __init__(self, run: Path) -> None:
        super().__init__(None, run.name, live=True)
        self.folder = run
        self.training = TrainingRun(run)

    @property
    def index(self) -> Index:
        """The index of the rollouts; ``DataError`` as long as there are none."""
        if self._index is None:
            self._index = Index(self.folder)
        return self._index

    def watch(self, request: Any) -> Any:
        """The whole page or, for the script, its changing part alone."""
        part = "part" in request.query_params
        try:
            progress, wrong = self.training.progress(), ""
        except DataError as error:
            progress, wrong = None, str(error)
        return self.page(
            "watch_now.html" if part else "watch.html", progress=progress, wrong=wrong,
            rollouts=self._newest(),
        )  # fmt: skip

    def list(self, request: Any) -> Any:
        """The episodes or, as long as there are none, the way to the training's own page."""
        from starlette.responses import RedirectResponse

        try:
            return super().list(request)
        except DataError:
            return RedirectResponse("/live")

    def _newest(self) -> Sequence[Any]:
        try:
            self.index.refresh()
        except DataError:
            return []
        return query.newest(self.index, NEWEST)


def watch_app(run: Path) -> Starlette:
    """The application; ``DataError`` if the run is no folder."""
    from starlette.routing import Route

    if not run.is_dir():
        raise DataError(f"{run} is no folder: name that of a training, as in runs/grpo")
    watcher = RunWatcher(run.resolve())
    return application(watcher, [Route("/live", watcher.watch)])
