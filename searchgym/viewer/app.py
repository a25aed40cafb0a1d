"""The viewer's pages over an index, and the live page of a training; served to this machine.

The live page asks anew every two seconds; the run's folder is only read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..web.pages import Templates
from ..web.server import build_app as build_server
from . import query
from .highlight import COLOURS, SearchTerms, coloured, compared, marked
from .index import Index
from .query import BOOKS, Filter, Side
from .record import OUTCOMES, PROBLEMS, Record
from .training import SMOOTHINGS, RunProgress, TrainingRun, panels

if TYPE_CHECKING:
    from starlette.applications import Starlette

MOST_RAW = 200_000
"""Characters of an episode's own bytes that are shown."""
MOST_CHANGES, MOST_BROKEN = 300, 20
NEWEST = 8
"""Rollouts on the live page."""
TABS = {"turns": "Turns", "tokens": "Tokens", "tree": "Tree", "raw": "Record"}


def viewer_pages() -> Templates:
    """The templates, with what they need of here."""
    pages = Templates(styles=["viewer.css"], scripts=["viewer.js", "watch.js"])
    pages.environment.globals |= {
        "OUTCOMES": OUTCOMES, "PROBLEMS": PROBLEMS, "BOOKS": BOOKS, "TABS": TABS,
        "COLOURS": COLOURS, "marked": marked,
    }  # fmt: skip
    pages.environment.filters["golden"] = lambda text: next(iter(json.loads(text)), "")
    return pages


class Viewer:
    """Responses of the viewer, one method an address."""

    def __init__(self, index: Index | None, name: str, *, live: bool = False) -> None:
        self._index, self.name, self.live = index, name, live
        self.pages = viewer_pages()
        self._choices: tuple[int, dict[str, Any]] = (-1, {})

    @property
    def index(self) -> Index:
        """The index that is shown."""
        assert self._index is not None  # RunWatcher's comes later
        return self._index

    def choices(self) -> dict[str, Any]:
        """Return what filters offer, counted anew when episodes were added."""
        if self._choices[0] != self.index.version:
            self._choices = (self.index.version, query.choices(self.index))
        return self._choices[1]

    def page(self, template: str, status: int = 200, **values: Any) -> Any:
        from starlette.responses import HTMLResponse

        try:
            several = len(self.choices()["agent"]) > 1 or len(self.choices()["step"]) > 1
            empty = False
        except DataError:  # no trajectory yet
            several, empty = False, True
        text = self.pages.served(
            template,
            run=self.name,
            several=several,
            empty=empty,
            exported=False,
            live=self.live,
            **values,
        )
        return HTMLResponse(text, status)

    def gone(self, what: str) -> Any:
        return self.page("message.html", 404, heading="Not here", message=what)

    # --- the list -----------------------------------------------------------------------------
    def list(self, request: Any) -> Any:
        self.index.refresh()
        given: Mapping[str, str] = request.query_params
        chosen = Filter.of(given)
        listing = query.listing(self.index, chosen, _number(given.get("page"), 1))
        broken, bars = self.index.broken(), query.overview(self.index, chosen)
        seen = [name for name in OUTCOMES if any(name in bar.counts for bar in bars)]
        return self.page(
            "list.html", chosen=chosen, found=listing, choices=self.choices(),
            first=(listing.page - 1) * query.PAGE, bars=bars, seen=seen,
            search=SearchTerms(chosen.q), snippets=self._snippets(chosen, listing.rows),
            broken=broken[:MOST_BROKEN], broken_in_all=len(broken),
        )  # fmt: skip

    def _snippets(self, chosen: Filter, rows: Sequence[Any]) -> dict[str, Any]:
        """Key → markup of the place in which a search found an episode."""
        search = SearchTerms(chosen.q)
        if not search:
            return {}
        records = {row["key"]: self._record(row["key"]) for row in rows}
        return {key: search.snippet(record) for key, record in records.items() if record}

    def _record(self, key: str) -> Record | None:
        """The episode; None where there is none, or its file has changed since."""
        try:
            return self.index.record(key)
        except (DataError, OSError):
            return None

    # --- one episode --------------------------------------------------------------------------
    def episode(self, request: Any) -> Any:
        key, given = request.path_params["key"], request.query_params
        record = self._record(key)
        if record is None:
            return self.gone(f"There is no episode {key}: the run has changed, or the link is old.")
        tab = given.get("tab", "turns")
        tab = tab if tab in TABS else "turns"
        by = given.get("by", "")
        by = by if by in COLOURS else next(iter(COLOURS))
        chosen, place = Filter.of(given), given.get("at", "")
        before = after = None
        at = _number(place, -1)
        if at >= 0:
            before, after = query.neighbours(self.index, chosen, at)
        branches = query.tree(self.index, record.id, record.agent) if record.id else []
        others = [r for r in query.same_task(self.index, record.task) if r["key"] != key]
        return self.page(
            "episode.html", key=key, record=record, tab=tab, by=by, at=at, chosen=chosen,
            before=before, after=after, branches=branches, others=others,
            tokens=coloured(record.tokens, by) if tab == "tokens" else [],
            search=SearchTerms(chosen.q), page_size=query.PAGE,
            raw=self.index.raw(key, MOST_RAW) if tab == "raw" else "",
        )  # fmt: skip

    # --- two of them --------------------------------------------------------------------------
    def compare(self, request: Any) -> Any:
        keys = [request.query_params.get(name, "") for name in ("a", "b")]
        records = [self._record(key) for key in keys]
        if records[0] is None or records[1] is None:
            return self.gone("Two episodes are compared: /compare?a=KEY&b=KEY")
        pair: list[Record] = [r for r in records if r is not None]
        return self.page(
            "compare.html", keys=keys, pair=pair, turns=_side_by_side(*pair), search=SearchTerms()
        )

    def changes(self, request: Any) -> Any:
        known, *first = query.sides(self.index)
        named = {_name(side): side for side in known}
        before, after = (
            named.get(request.query_params.get(name, ""), side)
            for name, side in zip("ab", first, strict=True)
        )
        rows = query.changes(self.index, before, after)
        moved = [row for row in rows if row["change"]]
        sums = {
            "tasks": len(rows),
            "up": sum(row["change"] > 0 for row in moved),
            "down": sum(row["change"] < 0 for row in moved),
        }
        return self.page(
            "changes.html", named=named, before=_name(before), after=_name(after), sums=sums,
            rows=moved[:MOST_CHANGES], cut=len(moved) - MOST_CHANGES,
        )  # fmt: skip


def build_app(index: Index) -> Starlette:
    """The application."""
    return application(Viewer(index, index.run.name))


def application(viewer: Viewer, more: Sequence[Any] = ()) -> Starlette:
    """The application of a viewer and of ``more`` routes."""
    from starlette.routing import Route

    app = build_server(
        [
            *more,
            Route("/", viewer.list),
            Route("/episode/{key:str}", viewer.episode),
            Route("/compare", viewer.compare),
            Route("/changes", viewer.changes),
        ]
    )
    app.add_exception_handler(
        404, lambda request, _: viewer.gone(f"{request.url.path} is no page.")
    )
    app.add_exception_handler(DataError, lambda request, error: viewer.gone(str(error)))
    return app


# --- a training -----------------------------------------------------------------------------------
class RunWatcher(Viewer):
    """The viewer of a run that may hold no trajectory yet, and its live page, which draws the
    curves of ``others`` beside its own."""

    def __init__(self, run: Path, others: Sequence[Path] = ()) -> None:
        super().__init__(None, run.name, live=True)
        self.folder = run
        self.runs = {folder.name: TrainingRun(folder) for folder in (run, *others)}

    @property
    def index(self) -> Index:
        """The index of the rollouts; ``DataError`` as long as there are none."""
        if self._index is None:
            self._index = Index(self.folder)
        return self._index

    def watch(self, request: Any) -> Any:
        """The live page."""
        smooth = request.query_params.get("smooth", "")
        smooth = smooth if smooth in SMOOTHINGS else ""
        progress: dict[str, RunProgress] = {}
        wrong = []
        for name, run in self.runs.items():
            try:
                progress[name] = run.progress()
            except DataError as error:
                wrong.append(str(error))
        curves = panels(progress, float(smooth or 0)) if progress else []
        return self.page(
            "watch.html", progress=progress, wrong=wrong, panels=curves, rollouts=self._newest(),
            smooth=smooth, SMOOTHINGS=SMOOTHINGS,
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


def watch_app(run: Path, *others: Path) -> Starlette:
    """The application; ``DataError`` if a run is no folder."""
    from starlette.routing import Route

    for folder in (run, *others):
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder: name that of a training, as in runs/grpo")
    watcher = RunWatcher(run.resolve(), [folder.resolve() for folder in others])
    return application(watcher, [Route("/live", watcher.watch)])


def _number(text: str | None, other: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else other


def _name(side: Side) -> str:
    return side.agent if side.step is None else f"{side.agent}@{side.step}"


def _side_by_side(one: Record, other: Record) -> list[tuple[Any, Any, Any, Any]]:
    """Turn by turn: the turn of each (or None) and its text, with what differs marked."""
    rows = []
    for number in range(max(len(one.turns), len(other.turns))):
        a = one.turns[number] if number < len(one.turns) else None
        b = other.turns[number] if number < len(other.turns) else None
        texts = compared(a.text if a else "", b.text if b else "")
        rows.append((a, texts[0], b, texts[1]))
    return rows
