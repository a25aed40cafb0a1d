"""``searchgym view``: look at trajectories in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import DataError
from .output import examples, progress, say

if TYPE_CHECKING:
    from ..viewer.index import Index
    from ..viewer.query import Filter


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym view runs/eval",
            "searchgym view runs/eval/rules.trajectories.jsonl --port 8010 --no-browser",
            "searchgym view runs/grpo --export wrong.html --where outcome=wrong",
            "searchgym view runs/eval --animate episode.svg --where agent=oracle --where hops=2",
        )
    )(view)


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder or file of trajectories.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write one HTML file instead.")
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Write the first episode as an animated SVG."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, max=2000, help="Episodes in the file.")] = 200,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Filters of episodes: q, outcome, agent, step, family, hops, tool, end, problem, "
            "book (closed, all), least, most (reward), sort. Repeatable.",
        ),
    ] = None,
) -> None:
    """Look at trajectories: ours, and those of Search-R1, verifiers and OpenAI-style chats.

    The server answers on this machine only. An index is kept in your cache (SEARCHGYM_CACHE), so
    that 100,000 episodes open at once the next time; nothing is written beside the run.
    """
    chosen = _filter(where)
    index = _index(run)
    if export is not None:
        from ..viewer.export import export as write

        done = write(index, export, chosen, most)
        told = f"{done.shown:,} of {done.total:,} episodes" if done.shown < done.total else (
            f"{done.total:,} episodes"
        )  # fmt: skip
        print(f"{export}: {told}")
        return
    if animate is not None:
        from ..viewer.animation import animate as draw
        from ..viewer.query import listing

        rows = listing(index, chosen, size=1).rows
        record = index.record(rows[0]["key"]) if rows else None
        if record is None:
            raise DataError(f"no episode of {run} fits the filter; nothing was written")
        draw(record, animate)
        print(f"{animate}: {record.question}")
        return
    from ..serve.loopback import serve
    from ..viewer.app import build_app

    (row,) = index.rows("SELECT count(*) AS n FROM episodes")
    if broken := index.broken():
        say(f"{len(broken):,} records could not be read; the first: {broken[0]['told']}")
    query = chosen.address()

    def announce(address: str) -> None:
        shown = f"{address}{'?' + query if query else ''}"
        print(f"showing {row['n']:,} episodes of {run} on {shown} (Ctrl-C ends)", flush=True)

    serve(build_app(index), port=port, browser=browser, announce=announce)


def _filter(where: list[str] | None) -> Filter:
    from dataclasses import fields

    from ..errors import CardError, unknown
    from ..viewer.query import Filter

    known = [f.name for f in fields(Filter)]
    given = {}
    for pair in where or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise CardError(f"--where takes NAME=VALUE, got {pair!r}")
        if name not in known:
            raise CardError(unknown("filter", name, known))
        given[name] = value
    chosen = Filter.of(given)
    for name, value in given.items():
        if value and not getattr(chosen, name):
            raise CardError(f"--where {name}={value}: no such value; see the lists of the page")
    return chosen


def _index(run: Path) -> Index:
    from ..viewer.files import sources
    from ..viewer.index import Index

    total = sum(source.path.stat().st_size for source in sources(run.resolve()))
    with progress(f"indexing {run}", total, "bytes") as advance:
        index = Index(run, advance)
    return index
