"""The search page at ``/``: a form over ``/retrieve``. Importing this module imports fastapi.

The page itself holds nothing of the corpus: its script asks ``/healthz``, ``/retrieve`` and
``/access`` as any client does, with the token that the user types in where one is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import HTMLResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from ..web.pages import Templates
from .loopback import HEADERS

if TYPE_CHECKING:
    from fastapi import FastAPI


def add_page(app: FastAPI) -> None:
    """Add the page and its files (``/static/…``)."""
    templates = Templates("searchgym.serve", styles=("search.css",), scripts=("search.js",))
    page = templates.served("search.html")
    for name in ("searchgym.web", "searchgym.serve"):
        files = StaticFiles(packages=[(name, "static")])
        app.router.routes.append(Mount(f"/static/{name.rpartition('.')[2]}", files))

    @app.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers=HEADERS)
