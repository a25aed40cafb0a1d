"""``searchgym world browse``: a world in the browser, served or as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError
from .output import examples, progress, say, working
from .targets import DataDir, Overrides, make_search_env, overrides

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..world_browser.atlas import Atlas


def browse(
    name: Annotated[
        str,
        typer.Argument(
            metavar="WORLD",
            help="An environment, a world's card (name or folder), or kg:PATH for your triples.",
        ),
    ] = "SearchQA-v0",
    split: Annotated[str, typer.Option(help="train, dev or test: three different worlds.")] = (
        "train"
    ),
    settings: Overrides = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option(help="Write pages into this folder instead of serving them.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most entities to write with --out.")] = 500,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser at once.")
    ] = True,
) -> None:
    """Look at a world in the browser: an entity and its neighbours, its page with each fact marked,
    the tasks that use it, and how each task is reasoned out.

    Answers on this machine only. With [bold]--out[/bold] the pages are files that need no server.
    """
    from ..world_browser.app import browser_app
    from ..world_browser.atlas import Atlas

    with working(f"building {name} …"):
        atlas = Atlas(_setting(name, split, settings, data_dir))
    if out is not None:
        _write(atlas, out, limit)
        return
    from ..serve.loopback import serve

    app = browser_app(atlas)
    serve(app, port=port, browser=browser, announce=lambda at: say(f"{at} (Ctrl-C ends it)"))


def _setting(name: str, split: str, settings: list[str] | None, data_dir: Path | None) -> SearchEnv:
    """Return the setup of an environment with its tasks, or of a corpus with tasks of common
    families."""
    from ..envs.search import SearchEnv
    from ..envs.sources import DEFAULT_TASKS
    from .sources import corpus_card

    keywords: dict[str, Any] = {"split": split}
    if data_dir is not None:
        keywords["data_dir"] = str(data_dir)
    try:
        card = corpus_card(name)
    except CardError as error:
        try:
            return make_search_env(name, settings, **keywords)
        except CardError as other:
            if "-v" in name or name.startswith("searchgym/"):
                raise other from None
            raise error from None
    corpus = name if card is None or "/" in name else card.id
    keywords = {"corpus": corpus, **keywords, **overrides(settings)}
    told = "tasks" in keywords or "tasks" in keywords.get("world", {})
    if card is None or card.body["kind"] != "world" or told:
        return SearchEnv(**keywords)
    counts = card.body.get("world", {}).get("tasks", DEFAULT_TASKS)
    return SearchEnv(**{**keywords, "tasks": {**counts, "at_most": True}})


def _write(atlas: Atlas, out: Path, limit: int) -> None:
    from ..world_browser.export import export

    with progress("writing", unit="pages") as advance:
        wrote = export(atlas, out, most=limit, advance=advance)
    say(
        f"{wrote.entities:,} of {wrote.of_entities:,} entities and {wrote.tasks:,} of "
        f"{wrote.of_tasks:,} tasks: open {out / 'index.html'}"
    )


EPILOG = examples(
    "searchgym world browse",
    "searchgym world browse MultiHopQA-v0 --split test",
    "searchgym world browse ./my-world -s tasks.simple=20 -s tasks.chain=20",
    "searchgym world browse kg:triples.tsv",
    "searchgym world browse research -s world.entities=300 --out pages",
)
