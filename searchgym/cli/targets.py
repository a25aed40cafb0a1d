"""From what a person types (an id, a folder, ``key=value``) to environments and settings."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import typer

from ..cards import read_card
from ..errors import CardError, unknown
from ..objects import bare_hint, check_fits, load_module, load_object, own_folder
from ..registration import env_ids, register_card

if TYPE_CHECKING:
    from ..envs.search import SearchEnv

EnvId = Annotated[str, typer.Argument(metavar="ENV", help="An environment's id or card folder.")]
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
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
        help="Run the code that the files read here name by import path; else only registered "
        "items may be named in them.",
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Where real sets lie (default: SEARCHGYM_DATA or the cache).")
]


def env_id(name: str) -> str:
    """The registered id a name means: ``SearchQA``, ``searchgym/NQ-v0``, ``module:id``, a folder.

    Raises:
        CardError: nothing of that name is registered; the nearest names are given.
    """
    module, colon, rest = name.rpartition(":")
    if colon:
        load_module(module, name)
    for candidate in (rest, f"searchgym/{rest}", f"{rest}-v0", f"searchgym/{rest}-v0"):
        if candidate in gym.registry:
            return candidate
    if (folder := own_folder(name)) is not None:
        found = read_card(folder, "envs")
        if (use := found.body.get("use")) is not None:
            make_env = load_object(use)
            functions = inspect.isfunction(make_env)  # Gymnasium takes those, too
            check_fits("environment", use, make_env, gym.Env, functions=functions)
        register_card(found)
        return found.id
    known = [i.removeprefix("searchgym/") for i in env_ids()]
    raise CardError(unknown("environment", name, known) + bare_hint(name))


def overrides(settings: Sequence[str] | None, flag: str = "--set") -> dict[str, Any]:
    """``["k=5", "world.entities=2000"]`` as keywords. Values are JSON where they can be."""
    out: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise CardError(
                f"{flag} takes KEY=VALUE, got {setting!r}; for example {flag} max_turns=4"
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


def make_search_env(name: str, settings: Sequence[str] | None = None, **keywords: Any) -> SearchEnv:
    """:func:`make`, for commands that need SearchGym's own environments."""
    from ..envs.search import SearchEnv

    env = make(name, settings, **keywords).unwrapped
    if not isinstance(env, SearchEnv):
        raise CardError(f"{name} is a {type(env).__name__}; this command needs a SearchEnv")
    return env
