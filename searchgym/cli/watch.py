"""``searchgym watch`` and ``train --open``: the live page of a training, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..plugins import register
from .output import say, with_examples


@register("watch")
@with_examples("searchgym watch runs/grpo", "searchgym watch runs/a runs/b --no-browser")
def watch(
    run: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN [RUN …]",
            help="Folder that train or quickstart writes; curves of further ones are drawn beside.",
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Follow a training in the browser: curves, warnings, what is left, the newest rollouts.

    While it goes on, or after it has ended. The server answers on this machine only, and only reads
    the folder.
    """
    from ..viewer.app import watch_app
    from ..web.server import serve

    def announce(address: str) -> None:
        print(f"watching {run[0]} on {address} (Ctrl-C ends)", flush=True)

    serve(watch_app(*run), port=port, browser=browser, announce=announce, path="live")


@contextmanager
def watching(run: Path, wanted: bool) -> Iterator[None]:
    """Serve and open the live page while the body trains; do nothing unless ``wanted``."""
    if not wanted:
        yield
        return
    from ..viewer.app import watch_app
    from ..web.server import serving

    run.mkdir(parents=True, exist_ok=True)
    app = watch_app(run)
    with serving(app, browser=True, announce=lambda at: say(f"the live page: {at}"), path="live"):
        yield
    say(f"look at it again: searchgym watch {run}")
