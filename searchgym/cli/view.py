"""``searchgym view`` and ``watch``: look at trajectories, a world, or a training in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError
from ..objects import is_path, own_folder
from ..plugins import register
from .options import DataDir, Overrides, overrides
from .output import progress, say, with_examples, working
from .targets import make_search_env

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..viewer.index import Index
    from ..viewer.query import Filter


@register("view")
@with_examples(
    "searchgym view runs/eval",
    "searchgym view runs/eval/rules.trajectories.jsonl --port 8010 --no-browser",
    "searchgym view runs/grpo --export wrong.html --where outcome=wrong",
    "searchgym view MultiHopQA-v0 --split test",
    "searchgym view ./my-world -s tasks.simple=20 -s tasks.chain=20",
    "searchgym view kg:triples.tsv",
)
def view(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|WORLD",
            help="A folder or file of trajectories; or an environment, a world's card (name or "
            "folder), or kg:PATH for your triples.",
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write one HTML file instead.")
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
    split: Annotated[str, typer.Option(help="Of a world: train, dev or test.")] = "train",
    settings: Overrides = None,
    data_dir: DataDir = None,
) -> None:
    """Look at trajectories: ours, and those of Search-R1, verifiers and OpenAI-style chats. Or at a
    world: its entities, their pages with each fact marked, the tasks and how they are reasoned out.

    The server answers on this machine only. An index is kept in your cache (SEARCHGYM_CACHE), so
    that 100,000 episodes open at once the next time; nothing is written beside the run.
    """
    chosen = _filter(where)
    if _is_world(name):
        if export or where:
            raise CardError(f"{name} is a world: --export and --where are of episodes")
        _view_world(name, split, settings, data_dir, port, browser)
        return
    run = Path(name)
    index = _index(run)
    if export is not None:
        from ..viewer.export import export as write

        done = write(index, export, chosen, most)
        told = f"{done.shown:,} of {done.total:,} episodes" if done.shown < done.total else (
            f"{done.total:,} episodes"
        )  # fmt: skip
        print(f"{export}: {told}")
        return
    from ..viewer.app import build_app
    from ..web.server import serve

    (row,) = index.rows("SELECT count(*) AS n FROM episodes")
    if broken := index.broken():
        say(f"{len(broken):,} records could not be read; the first: {broken[0]['told']}")
    query = chosen.address()

    def announce(address: str) -> None:
        shown = f"{address}{'?' + query if query else ''}"
        print(f"showing {row['n']:,} episodes of {run} on {shown} (Ctrl-C ends)", flush=True)

    serve(build_app(index), port=port, browser=browser, announce=announce)


def _is_world(name: str) -> bool:
    """Return whether no run is named: a bare name of nothing here, a card's folder, a graph."""
    if name.startswith("kg:") or own_folder(name) is not None:
        return True
    if Path(name).exists():
        return False
    return not is_path(name) or name.startswith("searchgym/")


def _view_world(
    name: str, split: str, settings: list[str] | None, data_dir: Path | None, port: int,
    browser: bool,
) -> None:  # fmt: skip
    from ..viewer.world import WorldIndex, world_app
    from ..web.server import serve

    with working(f"building {name} …"):
        app = world_app(WorldIndex(_setting(name, split, settings, data_dir)))

    def announce(address: str) -> None:
        print(f"showing the world of {name} on {address} (Ctrl-C ends)", flush=True)

    serve(app, port=port, browser=browser, announce=announce)


def _setting(name: str, split: str, settings: list[str] | None, data_dir: Path | None) -> SearchEnv:
    """Return the setup of an environment with its tasks, or of a corpus with tasks of common
    families."""
    from ..envs.search import SearchEnv
    from ..envs.sources import DEFAULT_TASKS
    from .targets import corpus_card

    keywords: dict[str, Any] = {"split": split}
    if data_dir is not None:
        keywords["data_dir"] = str(data_dir)
    try:
        card = corpus_card(name)
    except CardError as error:
        try:
            return make_search_env(name, settings, **keywords)
        except CardError as other:
            of_an_env = "-v" in name or name.startswith("searchgym/")
            raise (other if of_an_env else error) from None
    corpus = name if card is None or "/" in name else card.id
    keywords = {"corpus": corpus, **keywords, **overrides(settings)}
    told = "tasks" in keywords or "tasks" in keywords.get("world", {})
    if card is None or card.body["kind"] != "world" or told:
        return SearchEnv(**keywords)
    counts = card.body.get("world", {}).get("tasks", DEFAULT_TASKS)
    return SearchEnv(**{**keywords, "tasks": {**counts, "at_most": True}})


def _filter(where: list[str] | None) -> Filter:
    from dataclasses import fields

    from ..errors import check_known
    from ..viewer.query import Filter

    known = [f.name for f in fields(Filter)]
    given = {}
    for pair in where or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise CardError(f"--where takes NAME=VALUE, got {pair!r}")
        check_known("filter", known, name)
        given[name] = value
    chosen = Filter.of(given)
    for name, value in given.items():
        if value and not getattr(chosen, name):
            raise CardError(f"--where {name}={value}: no such value; see the lists of the page")
    return chosen


def _index(run: Path) -> Index:
    from ..viewer.formats import sources
    from ..viewer.index import Index

    total = sum(source.path.stat().st_size for source in sources(run.resolve()))
    with progress(f"indexing {run}", total, "bytes") as advance:
        index = Index(run, advance)
    return index


# --- the live page of a training ---------------------------------------------------------------
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
