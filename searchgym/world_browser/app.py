"""The served browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..serve.loopback import build_app
from ..web.pages import Templates
from . import pages as content
from .atlas import Atlas

if TYPE_CHECKING:
    from starlette.applications import Starlette

PACKAGE = "searchgym.world_browser"
LONGEST_TEXT = 200
"""Characters of a search that are looked at."""


def pages() -> Templates:
    """The templates, with what all pages of the browser need."""
    return Templates(PACKAGE, styles=["browser.css"], scripts=["browser.js"])


class Served:
    """Addresses on the server; tasks go by their id, so that a link says what it leads to."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas

    def home(self) -> str:
        return "/"

    def tasks(self) -> str:
        return "/tasks"

    def entity(self, entity: int) -> str | None:
        return f"/entity/{entity}"

    def kind(self, kind: int) -> str | None:
        return f"/?kind={kind}"

    def task(self, place: int) -> str | None:
        return f"/task/{quote(self._atlas.tasks[place].id, safe='')}"


def browser_app(atlas: Atlas) -> Starlette:
    """An application that shows an atlas: ``/``, ``/entity/N``, ``/tasks``, ``/task/ID``."""
    made = pages()
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    links = Served(atlas)

    def show(template: str, status: int = 200, **values: Any) -> Any:
        html = made.served(template, site=links, name=atlas.corpus.name, **values)
        return HTMLResponse(html, status)

    def missing(what: str) -> Any:
        return show("missing.html", 404, what=what)

    def home(request: Any) -> Any:
        asked = request.query_params
        kind = _number(asked.get("kind"))
        if kind is not None and not 0 <= kind < len(atlas.kinds):
            kind = None
        page = _number(asked.get("page")) or 1
        text = asked.get("q", "")[:LONGEST_TEXT]
        first = not asked  # the address alone: the world at a glance
        more = content.overview(atlas, links) if first else {"schema": None, "samples": []}
        listing = content.home(atlas, links, text, kind, page)
        return show("home.html", first=first, **listing, **more)

    def entity(request: Any) -> Any:
        number = request.path_params["number"]
        if not 0 <= number < atlas.graph.n_entities:
            return missing(f"entity number {number}")
        return show("entity.html", **content.entity(atlas, links, number))

    def tasks(request: Any) -> Any:
        asked = request.query_params
        page = _number(asked.get("page")) or 1
        text, family = asked.get("q", "")[:LONGEST_TEXT], asked.get("family", "")
        return show("tasks.html", **content.tasks(atlas, links, text, family, page))

    def task(request: Any) -> Any:
        key = request.path_params["key"]
        place = atlas.task_place(key)
        if place is None:
            return missing(f"task {key}")
        return show("task.html", **content.task(atlas, links, place))

    routes = [
        Route("/", home),
        Route("/entity/{number:int}", entity),
        Route("/tasks", tasks),
        Route("/task/{key:path}", task),
        Route("/{rest:path}", lambda request: missing("this address")),
    ]
    return build_app(routes, [PACKAGE])


def _number(text: str | None) -> int | None:
    """A whole number of at most nine digits, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 9 else None
