"""From cards to Gymnasium ids: ``import searchgym`` makes every catalogue environment known."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import gymnasium as gym

from .cards import Card, cards, read_card
from .errors import CardError, unknown

NAMESPACE = "searchgym"
ENTRY_POINT = "searchgym.envs.search:SearchEnv"
VECTOR_MODULE = "searchgym.envs.vector"
VECTOR_ENTRY_POINT = f"{VECTOR_MODULE}:SearchVectorEnv"


def ids_of(card: Card) -> tuple[str, ...]:
    """The ids a card registers: its own and its aliases."""
    return (card.id, *card.body.get("aliases", ()))


def register_card(card: Card) -> None:
    """Register one environment card; entry points are strings, so nothing is imported."""
    kwargs: dict[str, Any] = dict(card.body.get("kwargs", {}))
    for env_id in ids_of(card):
        if env_id in gym.registry:
            continue
        gym.register(
            id=env_id,
            entry_point=card.body.get("use", ENTRY_POINT),
            vector_entry_point=card.body.get("vector_use", _vector_form(card.body.get("use"))),
            kwargs=kwargs,
            order_enforce=True,
            disable_env_checker=False,
        )


def _vector_form(use: str | None) -> str:
    """The entry point of the vector environment that plays what ``use`` makes."""
    return VECTOR_ENTRY_POINT if use is None else f"{VECTOR_MODULE}:{use.replace(':', '.')}"


def register_catalog() -> None:
    """Register every card under ``envs/``."""
    for card in cards("envs").values():
        register_card(card)


def env_ids() -> list[str]:
    """All ids registered from the catalogue, aliases included."""
    return [name for card in cards("envs").values() for name in ids_of(card)]


def env_id(name: str) -> str:
    """The registered id a name means: ``SearchQA``, ``searchgym/NQ-v0``, ``module:id``, a folder.

    Raises:
        CardError: nothing of that name is registered; the nearest names are given.
    """
    if (Path(name) / "card.toml").is_file():
        own = read_card(Path(name), "envs")
        register_card(own)
        return own.id
    if ":" in name:
        module, _, rest = name.partition(":")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise CardError(f"cannot import {module!r} of {name!r}: {error}") from error
        name = rest
    tried = [name, f"searchgym/{name}", f"{name}-v0", f"searchgym/{name}-v0"]
    for candidate in tried:
        if candidate in gym.registry:
            return candidate
    raise CardError(unknown("environment", name, [i.removeprefix("searchgym/") for i in env_ids()]))
