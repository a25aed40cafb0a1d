"""``searchgym show``: one item of the catalogue, its page, an example and its expected scores."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..cards import cards, read_card
from ..errors import CardError, SearchGymError, unknown
from ..objects import load_known
from ..plugins import Registry
from .output import (
    JsonFlag,
    console,
    examples,
    print_facts,
    print_json,
    print_markdown,
)
from .targets import Overrides, env_id, make_search_env


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Any id that 'list' prints.")],
    build: Annotated[
        bool, typer.Option("--build", help="Build the environment and show what is in it.")
    ] = False,
    settings: Overrides = None,
    example: Annotated[
        bool, typer.Option("--example/--no-example", help="Play an example episode.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Show one item: what it is, an example, its expected scores, its options."""
    facts, text = _describe(name)
    if build:
        facts |= _built(name, settings)
    if as_json:
        print_json({**facts, "description": text})
        return
    console().print(f"[bold]{facts['id']}[/bold]: {facts['summary']}\n")
    print_facts("", {k: v for k, v in facts.items() if k not in _NOT_PRINTED and v != []})
    if text:
        print()
        print_markdown(text)
    kind = "corpora" if name in cards("corpora") else facts["kind"]
    if example and kind in ("envs", "agents", "dialects", "corpora"):
        print()
        _print_example(name, kind)
    if kind in ("envs", "agents", "corpora"):
        for section in Registry("section").values():
            load_known(section)(facts["id"].removeprefix("searchgym/"), kind)


_NOT_PRINTED = ("id", "kind", "summary", "entry point", "folder", "files", "get")
"""Facts of the JSON output that say nothing to a person, or are printed elsewhere."""


def _print_example(name: str, kind: str) -> None:
    """An episode, or why there is none."""
    from .example import episode_lines, passage_lines

    try:
        if kind == "corpora":
            title, lines = "Its first passage", passage_lines(name)
        elif kind == "envs":
            title, lines = "An episode", episode_lines(env_id(name))
        elif kind == "agents":
            title, lines = "An episode in SimpleQA-v0", episode_lines("SimpleQA-v0", name)
        else:
            title = "An episode in SimpleQA-v0, in this dialect"
            lines = episode_lines("SimpleQA-v0", keywords={"dialect": name})
    except (SearchGymError, gym.error.Error) as error:
        title, lines = "No example here", textwrap.wrap(str(error), 76)
    out = console()
    out.print(f"[bold]{title}[/bold]")
    for line in lines:
        out.print(f"  {line}", markup=False)


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
    for kind in ("engines", "dialects", "rewards"):
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
    text = "\n\n".join(f"**{title}:** {part}" for title, part in parts.items() if part)
    return {**facts, **read(name), "changes nothing": _idle(name)}, text


def _idle(name: str) -> list[str]:
    """Options that change nothing as the recipe is shipped."""
    from ..rl.diagnostics import idle_options
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
    facts: dict[str, Any] = {"id": name, "kind": "envs", "entry point": spec.entry_point}
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
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym show SearchQA-v0",
            "searchgym show searchgym/NQ-v0 --json",
            "searchgym show MultiHopQA-v0 --build -s world.entities=2000",
        )
    )(show)
