"""``searchgym list`` and ``show``: the catalogue and the registries."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..cards import Card, cards, read_card
from ..errors import CardError, MissingExtraError, unknown
from ..objects import load_known
from ..plugins import Registry, register
from .output import (
    JsonFlag,
    console,
    print_facts,
    print_json,
    print_lines,
    print_markdown,
    print_table,
    summary,
    with_examples,
)
from .targets import env_id

Rows = list[dict[str, Any]]


# --- rows of each kind ----------------------------------------------------------------------------
def environments() -> Rows:
    """Every environment: where it searches, what it asks, in which dialect, with how many turns."""
    from ..envs.options import Options

    default = {field.name: field.default for field in fields(Options)}
    rows = []
    for card in cards("envs").values():
        kwargs: Mapping[str, Any] = {**default, **card.body.get("kwargs", {})}
        rows.append(
            {"id": card.id, "corpus": kwargs["corpus"], "dialect": kwargs["dialect"],
             "tools": list(kwargs["tools"]), "turns": kwargs["max_turns"], "summary": card.summary}
        )  # fmt: skip
    return rows


def corpora() -> Rows:
    """Every corpus card."""
    return [
        {"id": card.id, "kind": card.body["kind"], "licence": card.body.get("licence", ""),
         "summary": card.summary}
        for card in cards("corpora").values()
    ]  # fmt: skip


def agents() -> Rows:
    """Every agent card."""
    return [
        {"id": card.id, "learns": "train" in card.body, "summary": card.summary}
        for card in cards("agents").values()
    ]


def recipes() -> Rows:
    """Every shipped recipe: a way to train a language model."""
    from ..rl.recipe_files import document, shipped

    return [
        {"id": name, "summary": doc.summary, "source": doc.source}
        for name in shipped()
        if (doc := document(name)) is not None
    ]


def engines() -> Rows:
    """Every engine by name."""
    from ..engines.registry import ENGINES

    def module(maker: object) -> object:
        return _module(maker) if isinstance(maker, str) else maker

    return [{"id": name, "summary": _summary_of(module, made)} for name, made in ENGINES.items()]


def registered(registry: str) -> Rows:
    """Every item of a registry by name; ``registry`` is its import path."""
    items = load_known(registry)
    return [{"id": name, "summary": _summary_of(load_known, one)} for name, one in items.items()]


def dialects() -> Rows:
    """Every dialect, with the options that can be appended to its name."""
    from ..dialects.base import DIALECTS

    rows = []
    for name, where in DIALECTS.items():
        module = _module(where)
        flags = getattr(getattr(module, where.partition(":")[2]), "FLAGS", ())
        rows.append(
            {"id": name, "options": [f"+{flag}" for flag in flags], "summary": summary(module)}
        )
    return rows


def models() -> Rows:
    """Every pretrained model that has a name."""
    from ..llms.models import MODELS

    return [
        {"id": name, "parameters": model.parameters, "licence": model.licence, "hub": model.hub,
         "summary": model.about}
        for name, model in MODELS.items()
    ]  # fmt: skip


def rewards() -> Rows:
    """Every reward part by name, and when it is measured."""
    from ..rewards import REWARDS, Reward

    rows = []
    for name in REWARDS:
        (part,) = Reward.of(name).parts
        when = "at the end" if part.on_turn is None else "each turn"
        rows.append({"id": name, "when": when, "summary": summary(part.measure)})
    return rows


def systems() -> Rows:
    """Every published system of which something is here: how much, by what, what is missing."""
    from ..rl.systems import implemented

    return [
        {"id": name, "covers": one.covers, "here": ", ".join(one.here), "missing": one.missing}
        for name, one in implemented().items()
    ]


KINDS: Mapping[str, Callable[[], Rows]] = {
    "envs": environments,
    "corpora": corpora,
    "agents": agents,
    "recipes": recipes,
    "engines": engines,
    "tools": partial(registered, "searchgym.tools:TOOLS"),
    "families": partial(registered, "searchgym.tasks.families:FAMILIES"),
    "dialects": dialects,
    "curricula": partial(registered, "searchgym.curricula:CURRICULA"),
    "rewards": rewards,
    "systems": systems,
    "models": models,
}
TITLES = {
    "envs": "Environments",
    "families": "Task families",
    "rewards": "Parts of rewards",
    "systems": "Published systems",
    "models": "Pretrained models",
}
ONE = {"envs": "env", "corpora": "corpus", "families": "family", "curricula": "curriculum"}
"""Kind → the word before the colon that names one of it; of the others, the kind without its s."""


def _module(where: str) -> Any:
    return importlib.import_module(where.partition(":")[0])


def _summary_of(load: Callable[[Any], object], entry: object) -> str:
    """The summary of what an entry stands for, or which package it needs that is not here."""
    try:
        return summary(load(entry))
    except MissingExtraError as missing:
        return str(missing)


# --- list -----------------------------------------------------------------------------------------
@register("list")
@with_examples(
    "searchgym list",
    "searchgym list recipes",
    "searchgym list envs --long",
    "searchgym list envs --json",
)
def list_all(
    what: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"{', '.join(KINDS)} or all.")
    ] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="A table with all columns.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List environments, corpora, agents, recipes, engines, tools and what else has a name.

    Without KIND: the environments, and how many there are of everything else.
    """
    what = {"environments": "envs"}.get(str(what), what)
    if what not in (None, "all", *KINDS):
        raise CardError(unknown("kind of thing", str(what), ["all", *KINDS]))
    rows_of = {kind: KINDS[kind]() for kind in KINDS if what in (None, "all", kind)}
    titles = {kind: TITLES.get(kind, kind.capitalize()) for kind in KINDS}
    if as_json:
        print_json(rows_of)
    else:
        for place, kind in enumerate(["envs"] if what is None else rows_of):
            if place:
                print()
            _print_kind(titles[kind], rows_of[kind], long)
        if what is None:
            rest = ", ".join(f"{len(rows_of[kind])} {kind}" for kind in rows_of if kind != "envs")
            console().print(
                f"\nThere are also {rest}: searchgym list KIND. More about one item: "
                "searchgym show ID."
            )


def _print_kind(title: str, rows: Rows, long: bool) -> None:
    rows = [{**row, "id": row["id"].removeprefix("searchgym/")} for row in rows]
    if not long and "summary" in rows[0]:
        console().print(f"[bold]{title} ({len(rows)})[/bold]")
        print_lines([(row["id"], row["summary"]) for row in rows])
    elif "turns" in rows[0]:  # environments: the summaries are what the short list is for
        rows = [{**row, "tools": _few(row["tools"])} for row in rows]
        print_table(title, rows, [name for name in rows[0] if name != "summary"])
    else:
        print_table(title, rows)


def _few(names: Sequence[str]) -> str:
    """The first names and how many more there are, so that a table keeps its other columns."""
    more = f" +{len(names) - 2}" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


# --- show -----------------------------------------------------------------------------------------
_NOT_PRINTED = ("id", "kind", "summary", "entry point", "folder", "files", "get")
"""Facts of the JSON output that say nothing to a person, or are printed elsewhere."""


@register("show")
@with_examples(
    "searchgym show SearchQA-v0",
    "searchgym show searchgym/NQ-v0 --json",
    "searchgym show reward:search_r1",
)
def show(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="An id that 'list' prints, or KIND:ID.")
    ],
    example: Annotated[
        bool, typer.Option("--example/--no-example", help="Play an example episode.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Show one item: what it is, an example, its expected scores, its options."""
    kind, name, others = _meant(name)
    facts, text = _described(kind, name)
    if as_json:
        print_json({**facts, "description": text, "others": others})
        return
    console().print(f"[bold]{facts['id']}[/bold]: {facts.get('summary', 'of your own')}\n")
    print_facts("", {k: v for k, v in facts.items() if k not in _NOT_PRINTED and v != []})
    if text:
        print()
        print_markdown(text)
    if example and kind in ("envs", "agents", "dialects", "corpora"):
        print()
        from ..envs.registration import CARD_FILES
        from .example import print_example

        print_example(name, kind, None if "folder" in facts else CARD_FILES.get(facts["id"]))
    if kind in ("envs", "agents", "corpora"):
        for section in Registry("section").values():
            load_known(section)(facts["id"].removeprefix("searchgym/"), kind)
    if others:
        console().print(f"\nOthers of this name: searchgym show {' or '.join(others)}")


def _arguments(name: str) -> dict[str, Any]:
    """Return what a call of a tool takes, of a tool that says so before it is made."""
    from ..tools import TOOLS, tool_spec

    spec = tool_spec(load_known(TOOLS[name]))
    taken = spec.parameters.get("properties", {}) if spec else {}
    return {"arguments": [f"{k} ({v.get('type', 'any')})" for k, v in taken.items()]}


def _meant(name: str) -> tuple[str, str, list[str]]:
    """The kind and the id that ``reward:service`` means, or ``service``: there the first kind that
    knows it, and what the others are called."""
    before, colon, rest = name.partition(":")
    asked = [kind for kind in KINDS if colon and before in (kind, _one(kind))]
    if asked == ["envs"]:
        return "envs", env_id(rest), []
    name, not_an_env = rest if asked else name, None
    if not asked:
        try:
            return "envs", env_id(name), []
        except CardError as error:
            not_an_env = error
    ids = {kind: [row["id"] for row in KINDS[kind]()] for kind in asked or KINDS}
    found = [kind for kind, known in ids.items() if name in known]
    if not found:
        names = [one.removeprefix("searchgym/") for known in ids.values() for one in known]
        raise CardError(unknown(before if asked else "id", name, names)) from not_an_env
    return found[0], name, [f"{_one(kind)}:{name}" for kind in found[1:]]


def _one(kind: str) -> str:
    return ONE.get(kind, kind.removesuffix("s"))


def _described(kind: str, name: str) -> tuple[dict[str, Any], str]:
    """The facts of one item, and what its page says of it."""
    if kind == "envs":
        return _environment(name)
    if kind in ("corpora", "agents"):
        card = cards(kind)[name]
        facts = {"id": card.id, "kind": kind, "summary": card.summary, **card.body}
        return facts, _readme_summary(card)
    if kind == "recipes":
        return _recipe(name)
    facts = {"kind": kind, **next(row for row in KINDS[kind]() if row["id"] == name)}
    if kind == "tools":
        facts |= _arguments(name)
    elif kind == "models":
        from ..llms.models import fetched

        facts["here"] = str(fetched(name) or f"no; get it: searchgym models fetch {name}")
    elif kind == "systems":
        facts["summary"] = f"a published system, {facts.pop('covers')} of it here"
    return facts, ""


def _readme_summary(card: Card) -> str:
    """The first section of a card's README (its description), without the heading."""
    path = card.folder / "README.md"
    if not path.is_file():
        return ""
    sections = path.read_text(encoding="utf-8").split("\n## ")
    return sections[min(1, len(sections) - 1)].partition("\n")[2].strip()


def _recipe(name: str) -> tuple[dict[str, Any], str]:
    """The tables of a recipe, and what its ``[doc]`` says."""
    from ..rl.recipe_files import document, read

    doc = document(name)
    assert doc is not None  # every shipped recipe has one
    facts: dict[str, Any] = {
        "id": name, "kind": "recipes", "summary": doc.summary, "source": doc.source,
    }  # fmt: skip
    parts = {"Formula": doc.formula, "Ours": doc.ours, "Notes": doc.notes, "Results": doc.results}
    text = "\n\n".join(f"**{title}:** {part}" for title, part in parts.items() if part)
    facts |= read(name)
    if find_spec("torch") is not None:
        facts["changes nothing"] = _idle(name)
    return facts, text


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
    from ..envs.registration import ENTRY_POINT, ids_of, versions_of
    from ..envs.spaces import MAX_TEXT, FreeText

    spec = gym.spec(name)
    facts: dict[str, Any] = {"id": name, "kind": "envs", "entry point": spec.entry_point}
    text = ""
    for card in cards("envs").values():
        if name in (ids := (*ids_of(card), *versions_of(card))):
            version = name.rpartition("-")[2]
            also = [i for i in ids if i != name and i.endswith(version)]
            others = [i for i in ids if not i.endswith(version)]
            facts |= {
                "also": also,
                "other versions": others,
                "summary": card.summary,
                "folder": str(card.folder),
            }
            text = _readme_summary(read_card(card.folder, "envs"))
    if spec.entry_point == ENTRY_POINT:
        space = repr(FreeText(MAX_TEXT))
        facts |= {"action space": space, "observation space": space}
    return facts | {"kwargs": dict(spec.kwargs)}, text
