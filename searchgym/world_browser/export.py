"""The browser as a folder of files that need no server, for some of a world."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError
from . import pages as content
from .app import pages
from .atlas import Atlas

MOST = 500
"""Entities written unless told otherwise; a page is about 60 kB."""


class ExportSummary(NamedTuple):
    """Counts of what an export wrote: entities and tasks, and how many there were of each."""

    entities: int
    of_entities: int
    tasks: int
    of_tasks: int


class Files:
    """Addresses among the written files."""

    def __init__(self, entities: frozenset[int], tasks: frozenset[int]) -> None:
        self._entities, self._tasks = entities, tasks

    def home(self) -> str:
        return "index.html"

    def tasks(self) -> str:
        return "tasks.html"

    def entity(self, entity: int) -> str | None:
        return f"entity-{entity}.html" if entity in self._entities else None

    def kind(self, kind: int) -> str | None:
        return None  # there is no search without a server

    def task(self, place: int) -> str | None:
        return f"task-{place}.html" if place in self._tasks else None


def export(
    atlas: Atlas, out: Path, *, most: int = MOST, advance: Callable[[int], None] | None = None
) -> ExportSummary:
    """Write pages for at most ``most`` entities into ``out``: those of tasks first, task by task,
    then the best connected; and for every task whose entities are all among them.

    Each page holds its stylesheet and script and may load nothing. ``advance`` is told how many
    pages were written since.

    Raises:
        DataError: ``out`` holds something else than such pages.
    """
    if out.exists() and any(out.iterdir()) and not (out / "index.html").is_file():
        raise DataError(f"{out} is not empty and holds no index.html; name another folder")
    chosen = _chosen(atlas, most)
    whole = [
        place
        for place, task in enumerate(atlas.tasks)
        if all(e in chosen for e in atlas.entities_of(task))
    ]
    links, made = Files(chosen, frozenset(whole)), pages()
    out.mkdir(parents=True, exist_ok=True)

    def write(name: str, template: str, **values: Any) -> None:
        html = made.standalone(template, site=links, name=atlas.corpus.name, **values)
        (out / name).write_text(html, encoding="utf-8", newline="\n")
        if advance is not None:
            advance(1)

    rows = [content.entity_row(atlas, links, e) for e in sorted(chosen)]
    capped = (len(chosen), atlas.graph.n_entities)
    write(
        "index.html", "index.html", rows=rows, capped=capped, atlas=atlas,
        **content.overview(atlas, links),
    )  # fmt: skip
    listed = [content.task_row(atlas, links, place) for place in whole]
    write("tasks.html", "all_tasks.html", rows=listed, capped=(len(whole), len(atlas.tasks)))
    for entity in sorted(chosen):
        write(f"entity-{entity}.html", "entity.html", **content.entity(atlas, links, entity))
    for place in whole:
        write(f"task-{place}.html", "task.html", **content.task(atlas, links, place))
    return ExportSummary(len(chosen), atlas.graph.n_entities, len(whole), len(atlas.tasks))


def _chosen(atlas: Atlas, most: int) -> frozenset[int]:
    chosen: dict[int, None] = {}
    for task in atlas.tasks:
        wanted = [e for e in atlas.entities_of(task) if e not in chosen]
        if len(chosen) + len(wanted) <= most:
            chosen.update(dict.fromkeys(wanted))
    by_degree = (-atlas.graph.degree).argsort(kind="stable").tolist()
    for entity in by_degree:
        if len(chosen) >= most:
            break
        chosen[entity] = None
    return frozenset(chosen)
