"""``searchgym cache`` and ``models``: the user's cache, and the models fetched to it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ..plugins import register
from ..storage.cache import VARIABLE, cache_root, clear, sizes
from .output import JsonFlag, print_facts, print_json, print_table, say, with_examples, working

DOWNLOADED = ("data", "models", "collections")


@register("cache")
@with_examples("searchgym cache", "searchgym cache --json", "searchgym cache clear vectors")
def cache(context: typer.Context, as_json: JsonFlag = False) -> None:
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


@register("cache clear")
@with_examples("searchgym cache clear view", "searchgym cache clear --all")
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


@register("models")
@with_examples(
    "searchgym models",
    "searchgym models fetch smollm2-135m",
    "searchgym train grpo --model smollm2-135m",
)
def models(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Show every pretrained model that has a name: size, licence, and whether it was fetched.

    A name stands wherever a model's folder does (--model, --agent) and is fetched when first used.
    So does a GGUF file of yours (--model mine.gguf), which is converted when first used.
    """
    if context.invoked_subcommand is not None:
        return
    from ..llms.models import MODELS, fetched

    here = {name: fetched(name) for name in MODELS}
    if as_json:
        print_json(
            [
                {"model": name, "about": model.about, "parameters": model.parameters,
                 "licence": model.licence, "size": model.size, "hub": model.hub,
                 "wheel": model.wheel and f"{model.wheel.package}=={model.wheel.version}",
                 "folder": here[name] and str(here[name]),
                 "origin": here[name] and _origin(here[name])}
                for name, model in MODELS.items()
            ]
        )  # fmt: skip
        return
    shown = [
        {"model": name, "parameters": f"{model.parameters / 1e6:.0f} M",
         "MB": f"{model.size / 1e6:.0f}", "licence": model.licence,
         "here": str(here[name] or "no"), "what": model.about}
        for name, model in MODELS.items()
    ]  # fmt: skip
    print_table("Pretrained models", shown)
    say("fetch one: searchgym models fetch NAME; delete all: searchgym cache clear models")


@register("models fetch")
@with_examples("searchgym models fetch smollm2-135m")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As 'searchgym models' shows it.")],
    origin: Annotated[
        str,
        typer.Option(
            "--from", help="hub, wheel (of the package index), or auto: the first that answers."
        ),
    ] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Fetch a model into your cache, unless it is there."""
    from ..llms.models import MODELS
    from ..llms.models import fetch as get
    from .live import quiet_loading

    with working(f"fetching {name} …"), quiet_loading():
        folder = get(name, origin)  # type: ignore[arg-type]  # checked there
    facts = {"model": name, "folder": str(folder), "licence": MODELS[name].licence}
    print_facts(name, {**facts, **_origin(folder)}, as_json)


def _origin(folder: Any) -> dict[str, Any]:
    from ..llms.models import SOURCE

    origin: dict[str, Any] = json.loads((folder / SOURCE).read_text("utf-8"))
    return origin
