"""Turns what a person types (an id, a folder, ``key=value``) into environments and settings."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..envs.registration import env_id
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import CardError

EnvId = Annotated[
    str, typer.Argument(metavar="ENV", help="An environment's id, module:id or card folder.")
]
_NUMBER = re.compile(r"[-+]?(\d++(?:\.\d*+)?|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override an environment option; dots nest: world.entities=2000. Repeatable.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run code that the files read here name by import path. Without it, they may name "
        "registered items only.",
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of real sets (default: SEARCHGYM_DATA or the cache).")
]


def overrides(
    settings: Sequence[str] | None, flag: str = "--set", example: str = "max_turns=4"
) -> dict[str, Any]:
    """``["k=5", "world.entities=2000"]`` as keywords. Values are JSON where they can be."""
    out: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise CardError(
                f"{flag} takes KEY=VALUE, got {setting!r}; for example {flag} {example}"
            )
        value = _value(text)
        *path, last = key.split(".")
        into = out
        for part in path:
            into = into.setdefault(part, {})
            if not isinstance(into, dict):
                raise CardError(f"{flag} {key}: {part!r} is set twice, to a value and to a table")
        into[last] = value
    return out


def _value(text: str) -> Any:
    """JSON where it is some; ``.28`` and ``5.`` are numbers, too."""
    try:
        return json.loads(text)
    except ValueError:
        return float(text) if _NUMBER.fullmatch(text) else text


def make(name: str, settings: Sequence[str] | None = None, **keywords: Any) -> gym.Env[Any, Any]:
    """``gym.make`` with errors as one clear line. Nested tables are merged with the card's."""
    known = env_id(name)
    given = {**keywords, **overrides(settings)}
    default: Mapping[str, Any] = gym.spec(known).kwargs
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(default.get(key), Mapping) and key != "tasks":
            given[key] = {**default[key], **value}
    try:
        return gym.make(known, **given)
    except (TypeError, ValueError) as error:
        raise CardError(f"cannot make {known} with {given or 'its defaults'}: {error}") from error


def make_search_env(
    name: str, settings: Sequence[str] | None = None, *, stepped: bool = False, **keywords: Any
) -> SearchEnv:
    """:func:`make`, for commands that need SearchGym's own environments.

    ``stepped``: the command steps the environment itself; others play its episodes, with the
    effects of wrappers.
    """
    env = make(name, settings, **keywords)
    if not stepped:
        return search_env(env, stepped=True)
    if not isinstance(env.unwrapped, SearchEnv):
        raise CardError(f"{name} is a {type(env.unwrapped).__name__}; this needs a SearchEnv")
    return env.unwrapped


def without_keywords(name: str) -> tuple[dict[str, Any], Callable[..., Any]]:
    """The keywords of a registered environment, and what makes it from keywords alone."""
    spec = copy.deepcopy(gym.spec(env_id(name)))
    keywords, spec.kwargs = dict(spec.kwargs), {}
    return keywords, partial(gym.make, spec)
