"""``searchgym list``: the catalogue, one line an item."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..errors import CardError, unknown
from .output import (
    JsonFlag,
    console,
    examples,
    markdown_table,
    print_json,
    print_lines,
    print_table,
)

KINDS_HELP = "envs, corpora, agents, recipes, engines, dialects, rewards, systems or all"


def list_all(
    what: Annotated[str | None, typer.Argument(metavar="KIND", help=f"{KINDS_HELP}.")] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="A table with all columns.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List environments, corpora, agents, recipes, engines, dialects, rewards and systems.

    Without KIND: the environments, and how many there are of everything else.
    """
    from .listing import KINDS, TITLES

    what = {"environments": "envs"}.get(str(what), what)
    if what not in (None, "all", *KINDS):
        raise CardError(unknown("kind of thing", str(what), ["all", *KINDS]))
    rows_of = {kind: KINDS[kind]() for kind in KINDS if what in (None, "all", kind)}
    if as_json:
        print_json(rows_of)
    elif markdown:
        parts = [
            f"### {TITLES[k]}\n\n{markdown_table(rows)}" for k, rows in rows_of.items() if rows
        ]
        print("\n\n".join(parts))
    else:
        shown = ["envs"] if what is None else list(rows_of)
        for place, kind in enumerate(shown):
            if place:
                print()
            _print_kind(TITLES[kind], rows_of[kind], long)
        if what is None:
            rest = ", ".join(f"{len(rows_of[kind])} {kind}" for kind in rows_of if kind != "envs")
            console().print(
                f"\nThere are also {rest}: searchgym list KIND. More about one item: "
                "searchgym show ID."
            )


def _print_kind(title: str, rows: list[dict[str, Any]], long: bool) -> None:
    rows = [{**row, "id": row["id"].removeprefix("searchgym/")} for row in rows]
    if not long and "summary" in rows[0]:
        console().print(f"[bold]{title} ({len(rows)})[/bold]")
        print_lines([(row["id"], row["summary"]) for row in rows])
    elif "turns" in rows[0]:  # environments: the summaries are what the short list is for
        print_table(title, rows, [name for name in rows[0] if name != "summary"])
    else:
        print_table(title, rows)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "list",
        epilog=examples(
            "searchgym list",
            "searchgym list recipes",
            "searchgym list envs --long",
            "searchgym list envs --json",
        ),
    )(list_all)
