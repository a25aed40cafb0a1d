"""``searchgym list`` and ``searchgym show``: the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..cards import cards, read_card
from ..errors import CardError, unknown
from .output import JsonFlag, examples, markdown_table, print_facts, print_json, print_table
from .targets import Overrides, env_id, make_search_env

BEGIN, END = "<!-- searchgym list --markdown -->", "<!-- end of list -->"


def list_all(
    what: Annotated[
        str,
        typer.Argument(help="envs, corpora, agents, recipes, engines, dialects, rewards or all."),
    ] = "all",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown tables, as in CATALOGUE.md.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option(help="Put the Markdown tables into this file, between its marks.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List environments, corpora, agents, recipes, engines, dialects and parts of rewards."""
    from .listing import KINDS, TITLES

    if what != "all" and what not in KINDS:
        raise CardError(unknown("kind of thing", what, ["all", *KINDS]))
    found = {kind: KINDS[kind]() for kind in KINDS if what in ("all", kind)}
    if as_json:
        print_json(found)
    elif markdown or into:
        parts = [f"### {TITLES[k]}\n\n{markdown_table(rows)}" for k, rows in found.items() if rows]
        tables = "\n\n".join(parts)
        if into is None:
            print(tables)
        else:
            into.write_text(between_marks(into.read_text(encoding="utf-8"), tables), "utf-8")
    else:
        for kind, rows in found.items():
            print_table(TITLES[kind], rows)
            print()


def between_marks(text: str, tables: str) -> str:
    """``text`` with what stands between its two marks replaced; ``CardError`` without them."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise CardError(f"no place for the tables: the file needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Any id that 'list' prints.")],
    build: Annotated[
        bool, typer.Option("--build", help="Build the environment and show what is in it.")
    ] = False,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one item: its card, what it is about, its spaces and options."""
    facts, text = _describe(name)
    if build:
        facts |= _built(name, settings)
    if as_json:
        print_json({**facts, "description": text})
        return
    print_facts(name, facts)
    if text:
        print(f"\n{text}")


def _describe(name: str) -> tuple[dict[str, Any], str]:
    from ..rl.recipe_files import shipped
    from .listing import KINDS, readme_summary

    try:
        return _environment(env_id(name))
    except CardError as error:
        not_an_env = error
    for kind in ("corpora", "agents"):
        if name in (known := cards(kind)):
            card = known[name]
            facts = {"id": card.id, "kind": kind, "summary": card.summary, **card.body}
            return facts, readme_summary(card)
    if name in shipped():
        return _recipe(name)
    for kind in ("engines", "dialects"):
        for row in KINDS[kind]():
            if row["id"] == name:
                return {"kind": kind, **row}, ""
    names = [row["id"].removeprefix("searchgym/") for rows in KINDS.values() for row in rows()]
    raise CardError(unknown("id", name, names)) from not_an_env


def _recipe(name: str) -> tuple[dict[str, Any], str]:
    """The tables of a recipe, and what its ``[doc]`` says."""
    from ..rl.recipe_files import document, read

    doc = document(name)
    assert doc is not None  # every shipped recipe has one
    facts = {"id": name, "kind": "recipes", "summary": doc.summary, "source": doc.source}
    parts = {"Formula": doc.formula, "Ours": doc.ours, "Notes": doc.notes, "Results": doc.results}
    text = "\n\n".join(f"{title}: {part}" for title, part in parts.items() if part)
    return {**facts, **read(name), "changes nothing": _idle(name)}, text


def _idle(name: str) -> list[str]:
    """Options that change nothing as the recipe is shipped."""
    from ..rl.idle import idle_options
    from ..rl.recipe import Recipe
    from ..rl.slots.protocols import RunFacts

    recipe = Recipe.of(name)
    updates = int(recipe.train.get("epochs", 1)) * int(recipe.train.get("minibatches", 1))
    turns, tokens = recipe.env.get("max_turns"), recipe.sampling.get("max_tokens")
    longest = int(turns) * int(tokens) if turns and tokens else None
    return sorted(idle_options(recipe, RunFacts(updates, longest)))


def _environment(name: str) -> tuple[dict[str, Any], str]:
    from ..envs.registration import ENTRY_POINT, ids_of
    from ..envs.spaces import MAX_TEXT, FreeText
    from .listing import readme_summary

    spec = gym.spec(name)
    facts: dict[str, Any] = {"id": name, "entry point": spec.entry_point}
    text = ""
    for card in cards("envs").values():
        if name in ids_of(card):
            also = [i for i in ids_of(card) if i != name]
            facts |= {"also": also, "summary": card.summary, "folder": str(card.folder)}
            text = readme_summary(read_card(card.folder, "envs"))
    if spec.entry_point == ENTRY_POINT:
        space = repr(FreeText(MAX_TEXT))
        facts |= {"action space": space, "observation space": space}
    return facts | {"kwargs": dict(spec.kwargs)}, text


def _built(name: str, settings: list[str] | None) -> dict[str, Any]:
    from collections import Counter

    env = make_search_env(name, settings)
    env.reset(seed=0)
    return {
        "passages": len(env.corpus),
        "corpus digest": env.corpus.digest,
        "questions": len(env.tasks),
        "families": dict(Counter(task.family for task in env.tasks)),
        "engine": env.engine.fingerprint,
        "a question": env.episode.config.task.question,
        "oracle": env.oracle(),
    }


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        "list",
        epilog=examples("searchgym list", "searchgym list engines", "searchgym list envs --json"),
    )(list_all)
    app.command(
        epilog=examples(
            "searchgym show SearchQA-v0",
            "searchgym show searchgym/NQ-v0 --json",
            "searchgym show MultiHopQA-v0 --build -s world.entities=2000",
        )
    )(show)
