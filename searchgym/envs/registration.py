"""Registration of cards with Gymnasium: ``import searchgym`` makes the catalogue known."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from ..cards import Card, cards, read_card
from ..errors import CardError, unknown
from ..objects import bare_hint, check_fits, is_path, load_module, load_object, own_folder
from ..utils.trust import refuse

NAMESPACE = "searchgym/"
ENTRY_POINT = "searchgym.envs.search:SearchEnv"
VECTOR_MODULE = "searchgym.envs.vector"
VECTOR_ENTRY_POINT = f"{VECTOR_MODULE}:SearchVectorEnv"
CARD_FILES: dict[str, Path] = {}
"""Id → the card that it was registered from."""
_SHORT: set[str] = set()
"""Short ids that were registered beside the full ones."""


def ids_of(card: Card) -> tuple[str, ...]:
    """The ids of a card: its own and its aliases."""
    return (card.id, *card.body.get("aliases", ()))


def versions_of(card: Card) -> Mapping[str, Mapping[str, Any]]:
    """The ids of a card's other versions, and what each changes of its keywords: the table
    ``[versions.v1]`` of ``SearchQA-v0`` makes ``SearchQA-v1``, asked by the same card."""
    return {
        f"{env_id.rpartition('-')[0]}-{version}": changes
        for version, changes in card.body.get("versions", {}).items()
        for env_id in ids_of(card)
    }


def _short_ids(ids: Collection[str]) -> tuple[str, ...]:
    """Ids under which one of our environments is registered besides: without the namespace, so that
    ``gym.make("searchgym:HotpotQA-v0")`` works. Another package's environment of that name stays.
    """
    short = {env_id.removeprefix(NAMESPACE) for env_id in ids}.difference(ids)
    return tuple(sorted(s for s in short if s not in gym.registry or s in _SHORT))


def register_card(card: Card) -> None:
    """Register one environment card and its versions; entry points are strings, so nothing is
    imported.

    ``CardError`` if another environment has its id already.
    """
    kwargs: dict[str, Any] = dict(card.body.get("kwargs", {}))
    _register(card, ids_of(card), kwargs)
    for env_id, changes in versions_of(card).items():
        _register(card, (env_id,), {**kwargs, **changes})


def _register(card: Card, ids: Collection[str], kwargs: dict[str, Any]) -> None:
    entry = card.body.get("use", ENTRY_POINT)
    short = _short_ids(ids)
    _SHORT.update(short)
    for env_id in (*ids, *short):
        CARD_FILES.setdefault(env_id, card.folder / "card.toml")
        if (there := gym.registry.get(env_id)) is not None:
            if (there.entry_point, there.kwargs) == (entry, kwargs):
                continue
            raise CardError(
                f"{card.folder / 'card.toml'}: another environment is registered as {env_id!r}: "
                "give this one another id"
            )
        gym.register(
            id=env_id,
            entry_point=entry,
            vector_entry_point=card.body.get("vector_use", vector_form(entry)),
            kwargs=kwargs,
            order_enforce=True,
            disable_env_checker=False,
        )


def vector_form(entry: str) -> str:
    """Return the entry point of the vector environment that plays what ``entry`` makes."""
    if entry == ENTRY_POINT:
        return VECTOR_ENTRY_POINT
    return f"{VECTOR_MODULE}:{entry.replace(':', '.')}"


def register_catalog() -> None:
    """Register every card under ``envs/``."""
    for card in cards("envs").values():
        register_card(card)
    older = "|".join(sorted(i for c in cards("envs").values() if versions_of(c) for i in ids_of(c)))
    # Gymnasium calls them out of date; they are the same questions of worlds of another kind.
    told = rf".*environment ({NAMESPACE})?({older.replace(NAMESPACE, '')}) is out of date"
    warnings.filterwarnings("ignore", told, DeprecationWarning)


def env_ids() -> list[str]:
    """All ids registered from the catalogue, aliases and versions included."""
    return [name for card in cards("envs").values() for name in (*ids_of(card), *versions_of(card))]


def env_id(name: str) -> str:
    """The registered id a name means: ``SearchQA``, ``searchgym/NQ-v0``, ``module:id``, a folder.

    Raises:
        CardError: nothing of that name is registered; the nearest names are given.
    """
    module, colon, rest = name.rpartition(":")
    if colon:
        load_module(module, name)
    for candidate in (rest, f"searchgym/{rest}", f"{rest}-v0", f"searchgym/{rest}-v0"):
        if candidate in gym.registry and candidate not in _SHORT:
            return candidate
    if (folder := own_folder(name)) is not None:
        refuse(f"the folder {name!r:.80}")
        own = read_card(folder, "envs")
        if (use := own.body.get("use")) is not None:
            make_env = load_object(use)
            functions = inspect.isfunction(make_env)  # Gymnasium takes those, too
            check_fits("environment", use, make_env, gym.Env, functions=functions)
        register_card(own)
        return own.id
    known = [i.removeprefix("searchgym/") for i in env_ids()]
    if is_path(name) and not colon and Path(name).is_dir():
        raise CardError(f"{name} holds no card.toml, so it is no environment of yours")
    if "/" in name and not colon:  # a namespace of somebody's module, which is not imported
        raise CardError(
            f"unknown environment {name!r}: an id that a module of yours registers is written "
            f"my_module:{name}{bare_hint(name)}"
        )
    written = "" if colon else "; an id that your module registers is written my_module:MyQA-v0"
    raise CardError(unknown("environment", name, known) + written + bare_hint(name))
