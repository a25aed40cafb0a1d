"""``searchgym list`` and ``show``: the catalogue and the registries."""

from __future__ import annotations

import contextlib
import importlib
import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import typer

from ..cards import Card, cards, read_card
from ..errors import CardError, MissingExtraError, SearchGymError, unknown
from ..objects import load_known
from ..plugins import Registry, register
from .agents import contestant
from .output import (
    JsonFlag,
    console,
    cut,
    print_facts,
    print_json,
    print_lines,
    print_markdown,
    print_table,
    summary,
    with_examples,
)
from .targets import env_id, make_search_env

if TYPE_CHECKING:
    from ..core.episode import Episode
    from ..envs.search import SearchEnv
    from ..types import Agent, Task

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
}
TITLES = {
    "envs": "Environments",
    "families": "Task families",
    "rewards": "Parts of rewards",
    "systems": "Published systems",
}


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
)
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Any id that 'list' prints.")],
    example: Annotated[
        bool, typer.Option("--example/--no-example", help="Play an example episode.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Show one item: what it is, an example, its expected scores, its options."""
    facts, text = _describe(name)
    if as_json:
        print_json({**facts, "description": text})
        return
    console().print(f"[bold]{facts['id']}[/bold]: {facts.get('summary', 'of your own')}\n")
    print_facts("", {k: v for k, v in facts.items() if k not in _NOT_PRINTED and v != []})
    if text:
        print()
        print_markdown(text)
    kind = "corpora" if name in cards("corpora") else facts["kind"]
    if example and kind in ("envs", "agents", "dialects", "corpora"):
        print()
        from ..envs.registration import CARD_FILES

        _print_example(name, kind, None if "folder" in facts else CARD_FILES.get(facts["id"]))
    if kind in ("envs", "agents", "corpora"):
        for section in Registry("section").values():
            load_known(section)(facts["id"].removeprefix("searchgym/"), kind)


def _print_example(name: str, kind: str, own: Path | None) -> None:
    """An episode, or why there is none. Where the card is one's ``own``, its error is raised."""
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
        if own is not None:
            raise type(error)(f"{own}: {error}") from error
        title, lines = "No example here", textwrap.wrap(str(error), 76)
    out = console()
    out.print(f"[bold]{title}[/bold]")
    for line in lines:
        out.print(f"  {line}", markup=False)


def _arguments(name: str) -> dict[str, Any]:
    """Return what a call of a tool takes, of a tool that says so before it is made."""
    from ..tools import TOOLS, tool_spec

    spec = tool_spec(load_known(TOOLS[name]))
    taken = spec.parameters.get("properties", {}) if spec else {}
    return {"arguments": [f"{k} ({v.get('type', 'any')})" for k, v in taken.items()]}


def _describe(name: str) -> tuple[dict[str, Any], str]:
    from ..rl.recipe_files import shipped

    try:
        return _environment(env_id(name))
    except CardError as error:
        not_an_env = error
    for kind in ("corpora", "agents"):
        if name in (known := cards(kind)):
            card = known[name]
            facts = {"id": card.id, "kind": kind, "summary": card.summary, **card.body}
            return facts, _readme_summary(card)
    if name in shipped():
        return _recipe(name)
    for kind in ("engines", "tools", "families", "dialects", "curricula", "rewards"):
        for row in KINDS[kind]():
            if row["id"] == name:
                return {"kind": kind, **row, **(_arguments(name) if kind == "tools" else {})}, ""
    names = [row["id"].removeprefix("searchgym/") for rows in KINDS.values() for row in rows()]
    raise CardError(unknown("id", name, names)) from not_an_env


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


# --- an example -----------------------------------------------------------------------------------
SMALL = {"entities": 400}
FAMILIES = 4
"""Questions of each family in the world of an example."""
WIDTH = 76


def episode_lines(
    env_name: str, agent: str | None = None, keywords: Mapping[str, Any] | None = None
) -> list[str]:
    """Play one episode and return it as lines of at most 80 columns.

    A generated environment is built small (400 entities). Without ``agent`` the oracle plays, or,
    where the questions name no evidence, the rules.

    Raises:
        SearchGymError: the environment's data is not on this machine, or the agent cannot play.
    """
    env = _small(env_name, dict(keywords or {}))
    tasks = [task for task in env.tasks if not task.should_abstain] or list(env.tasks)
    for name in (agent,) if agent else ("oracle", "rules"):
        if (player := contestant(name)(env, tasks)) is not None:
            break
    else:
        raise SearchGymError(f"{agent} cannot play {env_name}")
    task = max(tasks, key=lambda t: (t.hops == 2, -len(t.question)))  # short, of two hops if any
    lines = _told(_played(env, player, task), name)
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="   ")]


def _small(name: str, keywords: dict[str, Any]) -> SearchEnv:
    given = gym.spec(env_id(name)).kwargs
    families: Mapping[str, Any] = given.get("tasks") or {}
    if families:  # a real set brings its own questions
        keywords["tasks"] = {
            k: min(v, FAMILIES) if isinstance(v, int) and not isinstance(v, bool) else v
            for k, v in families.items()
        } | {"at_most": True}
        keywords["world"] = {**given.get("world", {}), **SMALL}
    with contextlib.redirect_stderr(io.StringIO()):  # bars of a first download of nothing
        return make_search_env(name, **keywords)


def _played(env: SearchEnv, agent: Agent, task: Task) -> Episode:
    from ..core.rollout import run_episodes
    from ..evaluation.play import episode_for

    finished: list[Episode] = []
    run_episodes([episode_for(env, task, 0)], agent, env.toolbox, finished=finished.extend)
    return finished[0]


def _told(episode: Episode, player: str) -> Iterator[str]:
    """The question, each action, the titles it brought, and what the episode earned."""
    yield f"Question: {episode.config.task.question}"
    for segment in episode.contexts.segments:
        if segment.author == "policy":
            yield f"{player}: {cut(' '.join(segment.text.split()), WIDTH - len(player))}"
        for place, hit in enumerate(segment.hits, 1):
            text = hit.passage.text.removeprefix(hit.passage.title)
            yield f"   {cut(f'{place}. {hit.passage.title}: {text}', WIDTH - 3)}"
    outcome = episode.outcome()
    accepted = " / ".join(episode.config.task.answers[:3])
    reward = sum(turn.reward for turn in episode.turns)
    answer = outcome.answer if outcome is not None else ""
    yield f"Reward {reward:g} for {answer!r}; accepted: {accepted}"


def passage_lines(name: str) -> list[str]:
    """Return the first passage of a corpus as lines of at most 80 columns; a generated world is
    built small.

    Raises:
        SearchGymError: the corpus is not on this machine.
    """
    if cards("corpora")[name].body["kind"] == "world":
        env = _small("SimpleQA-v0", {"corpus": name})
        passage = env.corpus[0]
    else:
        from ..corpora.load import load_corpus

        passage = load_corpus(name)[0]
    return textwrap.wrap(cut(f"{passage.title}: {passage.text}", 4 * WIDTH), WIDTH)
