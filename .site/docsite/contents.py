"""Collect what the site's templates show: cards, docstrings, an episode and scores of each
environment. Nothing here is written for the site alone."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
import typing
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from searchgym.benchmark import reference_runs
from searchgym.benchmark.ladder import REAL_SETS
from searchgym.cards import Card, cards, catalog
from searchgym.core.trajectory import Trajectory
from searchgym.curricula import CURRICULA
from searchgym.dialects.base import DIALECTS
from searchgym.engines.registry import ENGINES, options_of
from searchgym.envs.options import Options
from searchgym.envs.unwrap import search_env
from searchgym.evaluation.metrics import own_metric
from searchgym.objects import load_known
from searchgym.rewards import REWARDS, Reward
from searchgym.rl import recipe_files
from searchgym.rl.systems import System, implemented
from searchgym.tools import TOOLS
from searchgym.types import Passage
from searchgym.viewer.formats.searchgym import read as read_trajectory
from searchgym_agents.leaderboard.entries import entries

from . import laboratory
from .animation import animated
from .figure import BAR, RUN
from .picture import caption, picture
from .scores import BEST, FILE, MEASURES, generated

HERE = Path(__file__).parent
EXAMPLES: Mapping[str, int] = tomllib.loads((HERE / "examples.toml").read_text("utf-8"))["seeds"]
"""The seed of an environment's example, chosen for a question that is quickly understood; 0 of
one that is not named."""
WORLD, TASKS = 400, 8
"""Entities of the example's world, and its questions a family."""
_ARXIV, _PAPER = re.compile(r"arXiv:(\d{4}\.\d{4,5})"), r"[arXiv:\1](https://arxiv.org/abs/\1)"
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_SECTION = re.compile(r"(?:^|\n\n)(Args|Raises|Returns|Yields|Attributes):\n")
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def environments() -> list[dict[str, Any]]:
    """Every environment: those of ``examples.toml`` in its order, other generated ones, then those
    with real questions."""
    order = {name: place for place, name in enumerate([*EXAMPLES, "", *REAL_SETS])}

    def place(env: dict[str, Any]) -> int:
        name = env["name"] if env["generated"] else env["kwargs"]["corpus"]
        return order.get(name, order[""] if env["generated"] else len(order))

    return sorted((environment(card) for card in cards("envs").values()), key=place)


def environment(card: Card) -> dict[str, Any]:
    """One environment as its page shows it; ``example`` is None where the questions are real,
    because their text is not ours."""
    kwargs = {name: _default(name) for name in ("engine", "dialect", "tools", "max_turns", "k")}
    return {
        "id": card.id,
        "name": card.folder.name,
        "summary": card.summary,
        "kwargs": {**kwargs, **card.body["kwargs"]},
        "engine": _engine({**kwargs, **card.body["kwargs"]}["engine"]),
        "generated": generated(card),
        "sections": sections(card.folder / "README.md"),
        "example": example(card) if generated(card) else None,
        "runs": runs(card.folder / FILE),
        "short": short(card),
        "beside": {} if generated(card) else beside(card.body["kwargs"]["corpus"]),
        "metric": own_metric(card.body["kwargs"]),
    }


def _engine(value: Any) -> str:
    """An engine as a table says it: its name and, in brackets, its options."""
    if isinstance(value, str):
        return f"`{value}`"
    options = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in value.items() if k != "name")  # fmt: skip
    return f"`{value['name']}` ({options})"


def _space(space: Any) -> str:
    return f"`{type(space).__name__}`: any text of at most {space.max_length:,} characters"


def _default(name: str) -> Any:
    return inspect.signature(Options).parameters[name].default


def sections(page: Path) -> dict[str, str]:
    """The text of each ``##`` section of a page, by its heading."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def runs(file: Path) -> dict[str, Any]:
    """The stored runs of a page's environment, none where it was never measured."""
    return reference_runs.load(file) if file.is_file() else {}


def scores(file: Path) -> list[dict[str, Any]]:
    """A row an agent: its name, and each measure's cell; in the order in which they are stored."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs(file).values():
        for cell in run["table"]:
            # without gold passages there is no recall
            blank = dict.fromkeys(("reward", *MEASURES))
            row = rows.setdefault(cell["agent"], {**blank, "agent": cell["agent"]})
            row[cell["metric"]] = cell
    return list(rows.values())


def short(card: Card) -> list[dict[str, Any]]:
    """The rows of an environment's table. On a real set the trained agent and the rules are those
    of README's figure, asked the same questions; others have asked fewer."""
    own = scores(card.folder / FILE)
    run = {} if generated(card) else beside(card.body["kwargs"]["corpus"])
    names = [cell["agent"] for cell in run.get("table", ())]
    blank = dict.fromkeys(("reward", *MEASURES))
    first = [{**blank, "agent": c["agent"], "f1": c} for c in run.get("table", ())]
    return [*(row for row in own if row["agent"] not in names), *first]


def beside(name: str) -> dict[str, Any]:
    """README's run on one real set: its cells of the trained agent and the rules, and their
    difference; empty where it has not played."""
    run = reference_runs.load(catalog("agents") / BEST / FILE)[RUN]
    shown = (run["arguments"][0], BAR)
    table = [c for agent in shown for c in run["table"] if (c["rung"], c["agent"]) == (name, agent)]
    gap = [c["difference"] for c in run["contrasts"] if (c["rung"], c["other"]) == (name, BAR)]
    return {**run, "table": table, "difference": gap[0]} if table else {}


def example(card: Card) -> dict[str, Any]:
    """An episode of a small world, solved by the oracle."""
    tasks = {k: v if k == "at_most" else TASKS for k, v in card.body["kwargs"]["tasks"].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer tasks than asked for: the world is small
        env = search_env(gym.make(card.id, world={"entities": WORLD}, tasks=tasks))
    seed = EXAMPLES.get(card.folder.name, 0)
    env.reset(seed=seed)
    task = env.episode.config.task
    told = [node.value for node in task.graph.nodes if node.value] if task.graph else []
    told += task.answers
    turns: list[dict[str, Any]] = []
    reward = 0.0
    for action in env.oracle():
        _, reward, *_, info = env.step(action)
        # a page that an engine slipped in is in no corpus
        hits = [env.corpus.passage(hit) for hit in info["hits"] if hit in env.corpus]
        turns.append(
            {"action": action.strip(), "reward": reward, "delta": info["delta"],
             "hits": [{"title": p.title, "pieces": excerpt(p, told), "gold": p.id in task.evidence}
                      for p in hits]}
        )  # fmt: skip
    return {
        "program": program(card, tasks, seed), "question": task.question,
        "answers": task.answers, "family": task.family,
        "turns": turns, "picture": (drawn := picture(task)),
        "caption": caption(task) if drawn else "", "action_space": _space(env.action_space),
        "observation_space": _space(env.observation_space),
    }  # fmt: skip


def program(card: Card, tasks: Mapping[str, Any], seed: int) -> str:
    """Program that plays an example's episode."""
    name = card.folder.name
    asked = "".join(f"        {family!r}: {count},\n" for family, count in tasks.items())
    return (
        f"env = gym.make(\n    {name!r},\n    world={{'entities': {WORLD}}},\n"
        f"    tasks={{\n{asked}    }},\n)\nobservation, info = env.reset(seed={seed})"
    ).replace("'", '"')


def excerpt(passage: Passage, told: Sequence[str]) -> list[tuple[str, bool]]:
    """Sentences of a passage that name something else of the reasoning, else its beginning; in
    pieces, each with whether it is such a name."""
    names = [name for name in told if name not in passage.title]
    kept = [s for s in _SENTENCE.split(passage.text) if any(name in s for name in names)]
    text = " … ".join(kept) or textwrap.shorten(passage.text, 150, placeholder=" …")
    if not names:
        return [(text, False)]
    marks = re.split("(" + "|".join(map(re.escape, names)) + ")", text)
    return [(piece, bool(i % 2)) for i, piece in enumerate(marks) if piece]


@cache
def recipes() -> list[dict[str, Any]]:
    """Every shipped recipe: its documentation, its tables, and what the laboratory measured."""
    made = []
    for name in recipe_files.shipped():
        doc, tables = recipe_files.document(name), recipe_files.read(name)
        assert doc is not None
        made.append(
            {"name": name, "doc": doc, "tables": tables, "lab": laboratory.of_recipe(name),
             "source": _ARXIV.sub(_PAPER, doc.source), "needs": needs(tables),
             "papers": [found.expand(_PAPER) for found in _ARXIV.finditer(doc.source)] or ["–"]}
        )  # fmt: skip
    return made


def needs(tables: Mapping[str, Any]) -> list[str]:
    """Return what a recipe needs besides the policy: a critic, a reference, a teacher."""
    told = json.dumps(tables)
    words = {"critic": '"critic"', "reference": '"reference"', "teacher": "teacher",
             "tree": "tree", "demonstrations": "demonstration"}  # fmt: skip
    return [word for word, sign in words.items() if sign in told] or ["–"]


def board() -> dict[str, Any]:
    """The stored scores as one matrix: the agents, best known first, and a row a set with a cell an
    agent; verified entries only, each by its set's own metric."""
    rows = [row for row in entries() if row.verified and row.metric in row.scores]
    counts = Counter(row.method for row in rows)
    agents = sorted(counts, key=lambda name: (name == "oracle", -counts[name], name))
    envs = {card.body["kwargs"].get("corpus"): card for card in cards("envs").values()
            if not generated(card)}  # fmt: skip
    sets: dict[str, dict[str, Any]] = {}
    for row in rows:
        card = envs.get(row.set) or cards("envs").get(row.set)
        if card is not None:
            line = sets.setdefault(row.set, {"env": card.folder.name, "metric": row.metric,
                                             "real": row.set in envs, "cells": {}})  # fmt: skip
            line["cells"][row.method] = row.scores[row.metric]
    known = {name: f"agents/searchgym_agents/{card.folder.name}/README.md"
             for name, card in cards("agents").items()}  # fmt: skip
    shown = [name for name in agents if any(name in line["cells"] for line in sets.values())]
    lines = sorted(sets.values(), key=lambda line: (not line["real"], line["env"]))
    for line in lines:
        means = {n: c.mean for n, c in line["cells"].items() if n != "oracle" and c.mean > 0.005}
        line["best"] = max(means, key=lambda name: means[name], default="")
    return {"agents": shown, "links": known, "sets": lines}


def wrapped(command: str, width: int = 76) -> str:
    """A command over several lines, each but the last ended by a backslash; none parts an option
    from its value."""
    lines = [""]
    for word in re.split(r" (?=-)", command):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return " \\\n".join(lines)


def episode_svg() -> str:
    """The animated episode of the start page: README's ten lines, played."""
    env = search_env(gym.make("SearchQA-v0", world={"entities": WORLD}, tasks={"chain-2": 20}))
    env.reset(seed=4)
    for action in env.oracle():
        env.step(action)
    return animated(read_trajectory(Trajectory.of(env.episode).to_json()))


def engines() -> list[dict[str, Any]]:
    """Every engine: what its class says of itself, and the options of ``engine={…}``."""
    rows = []
    for name, where in ENGINES.items():
        make = load_known(where) if isinstance(where, str) else where
        made = make if isinstance(make, type) else typing.get_type_hints(make)["return"]
        module = inspect.getdoc(inspect.getmodule(make))
        options = {
            option: "required" if p.default is p.empty else repr(p.default)
            for option, p in options_of(make).items()
        }
        rows.append({"name": name, "text": markdown(inspect.getdoc(made) or module or ""),
                     "summary": _first(where, make), "options": options})  # fmt: skip
    return rows


def _first(where: Any, make: Any) -> str:
    """The first sentence of the module that a name leads to."""
    module = __import__(where.partition(":")[0], fromlist=["_"]) if isinstance(where, str) else make
    return markdown(" ".join((module.__doc__ or "").strip().split("\n\n")[0].split()))


def rewards() -> list[dict[str, Any]]:
    """Every part of a reward by name: when it is measured and what."""
    rows = []
    for name in REWARDS:
        (part,) = Reward.of(name).parts
        when = "at the end" if part.on_turn is None else "each turn"
        rows.append({"name": name, "when": when, "text": markdown(inspect.getdoc(part.measure))})
    return rows


def systems() -> dict[str, System]:
    """Published systems: how much of each is here, by what, and what is missing."""
    return implemented()


def tools() -> list[dict[str, Any]]:
    """Every tool by name, with the description that agents are given."""
    return [
        {"name": name, "text": markdown(inspect.getdoc(load_known(where)))}
        for name, where in TOOLS.items()
    ]


def named(table: Mapping[str, str]) -> list[dict[str, Any]]:
    """Classes by name, with what they say of themselves."""
    return [{"name": n, "text": markdown(inspect.getdoc(load_known(w)))} for n, w in table.items()]


def dialects() -> list[dict[str, Any]]:
    """Every dialect by name."""
    return named(DIALECTS)


def curricula() -> list[dict[str, Any]]:
    """Every curriculum by name."""
    return named(CURRICULA)


def markdown(docstring: str | None) -> str:
    """A docstring as Markdown: roles become code, paragraphs one line each, and arguments one each;
    what it returns and raises is left to the API's pages."""
    text, *sections = _SECTION.split(_ROLE.sub(r"`\1`", docstring or ""))
    paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
    for head, body in zip(sections[::2], sections[1::2], strict=True):
        if head == "Args":
            found = _ARGUMENT.findall(body)
            lines = [f"`{name}`: {' '.join(said.split())}" for name, said in found]
            paragraphs.append("<br>".join(lines))  # in a table's cell, too
    return "\n\n".join(paragraphs)


def costs() -> dict[str, Any]:
    """Costs of the documented commands (``costs.py``)."""
    measured: dict[str, Any] = json.loads((HERE / "costs.json").read_text(encoding="utf-8"))
    return measured


def peers() -> dict[str, Any]:
    """Frameworks with which the tests last passed (``make peers``), in the page's order: title,
    versions of packages and of Python."""
    seen: dict[str, Any] = json.loads((HERE / "peers.json").read_text(encoding="utf-8"))
    return seen
