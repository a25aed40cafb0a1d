"""``searchgym cache``: what is kept in the user's cache, how large it is, and clearing it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..storage.cache import VARIABLE, cache_root, clear, sizes
from .output import JsonFlag, examples, print_json, print_table, say

DOWNLOADED = ("data", "models", "collections")

app = typer.Typer(
    help="What SearchGym keeps to save time: list it, delete it.",
    rich_markup_mode="rich",
    epilog=examples("searchgym cache", "searchgym cache --json", "searchgym cache clear vectors"),
)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Show what is kept: one row a kind, with its size and limit.

    Beyond its limit, the entries of a kind that were used longest ago are deleted. The folder is
    SEARCHGYM_CACHE, by default searchgym in the cache folder of your system.
    """
    if context.invoked_subcommand is not None:
        return
    kept = sizes()
    if as_json:
        kinds = [{**row._asdict(), "folder": str(row.folder)} for row in kept]
        print_json({"cache": str(cache_root()), "variable": VARIABLE, "kinds": kinds})
        return
    rows = [
        {
            "kind": row.kind,
            "entries": row.entries,
            "MB": f"{row.bytes / 1e6:,.1f}",
            "limit MB": "none" if row.limit is None else f"{row.limit / 1e6:,.0f}",
            "what": row.about,
        }
        for row in kept
    ]
    print_table(f"Cache in {cache_root()}", rows)
    say(f"{sum(row.bytes for row in kept) / 1e6:,.1f} MB; delete: searchgym cache clear KIND")


@app.command("clear", epilog=examples("searchgym cache clear view", "searchgym cache clear --all"))
def clear_kinds(
    kinds: Annotated[
        list[str] | None, typer.Argument(metavar="KIND...", help="As 'searchgym cache' shows them.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All kinds but what was downloaded.")
    ] = False,
) -> None:
    """Delete what is kept of some kinds. It is computed, or has to be downloaded, again."""
    chosen = list(kinds or [])
    if everything == bool(chosen):
        raise typer.BadParameter("name the kinds to clear, or say --all", param_hint="KIND")
    if everything:
        chosen = [row.kind for row in sizes() if row.kind not in DOWNLOADED]
    for kind in chosen:
        say(f"{kind}: {clear(kind) / 1e6:,.1f} MB deleted")
