"""Lists the catalogue and the registries as rows for tables."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..cards import Card, cards
from ..envs.options import Options

Rows = list[dict[str, Any]]


def environments() -> Rows:
    """Every environment: where it searches, what it asks, in which dialect, with how many turns."""
    default = {field.name: field.default for field in fields(Options)}
    rows = []
    for card in cards("envs").values():
        kwargs: Mapping[str, Any] = {**default, **card.body.get("kwargs", {})}
        rows.append(
            {
                "id": card.id,
                "corpus": kwargs["corpus"],
                "dialect": kwargs["dialect"],
                "tools": list(kwargs["tools"]),
                "turns": kwargs["max_turns"],
                "summary": card.summary,
            }
        )
    return rows


def corpora() -> Rows:
    """Every corpus card."""
    return [
        {
            "id": card.id,
            "kind": card.body["kind"],
            "licence": card.body.get("licence", ""),
            "summary": card.summary,
        }
        for card in cards("corpora").values()
    ]


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

    rows = []
    for name, maker in ENGINES.items():
        described = (
            importlib.import_module(maker.partition(":")[0]) if isinstance(maker, str) else maker
        )
        rows.append({"id": name, "summary": _summary(described)})
    return rows


def dialects() -> Rows:
    """Every dialect, with the options that can be appended to its name."""
    from ..dialects.base import DIALECTS

    rows = []
    for name, where in DIALECTS.items():
        module_name, _, attribute = where.partition(":")
        module = importlib.import_module(module_name)
        flags = getattr(getattr(module, attribute), "FLAGS", ())
        rows.append(
            {"id": name, "options": [f"+{flag}" for flag in flags], "summary": _summary(module)}
        )
    return rows


def rewards() -> Rows:
    """Every reward part by name, and when it is measured."""
    from ..rewards import REWARDS, Reward

    rows = []
    for name in REWARDS:
        (part,) = Reward.of(name).parts
        when = "at the end" if part.on_turn is None else "each turn"
        rows.append({"id": name, "when": when, "summary": _summary(part.measure)})
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
    "dialects": dialects,
    "rewards": rewards,
    "systems": systems,
}

TITLES: Mapping[str, str] = {
    "envs": "Environments",
    "corpora": "Corpora",
    "agents": "Agents",
    "recipes": "Recipes",
    "engines": "Engines",
    "dialects": "Dialects",
    "rewards": "Parts of rewards",
    "systems": "Published systems",
}


def _summary(thing: object) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((thing.__doc__ or "").strip().split("\n\n")[0].split())
    return paragraph.rstrip(".")


def readme_summary(card: Card) -> str:
    """The first section of a card's README (its description), without the heading."""
    path = card.folder / "README.md"
    if not path.is_file():
        return ""
    sections = path.read_text(encoding="utf-8").split("\n## ")
    if len(sections) < 2:
        return sections[0].partition("\n")[2].strip()
    return sections[1].partition("\n")[2].strip()
