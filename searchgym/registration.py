"""From cards to Gymnasium ids: ``import searchgym`` makes every catalogue environment known."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from .cards import Card, cards
from .errors import CardError

NAMESPACE = "searchgym"
ENTRY_POINT = "searchgym.envs.search:SearchEnv"
VECTOR_ENTRY_POINT = "searchgym.envs.vector:SearchVectorEnv"


def ids_of(card: Card) -> tuple[str, ...]:
    """The ids a card registers: its own and its aliases."""
    return (card.id, *card.body.get("aliases", ()))


def register_card(card: Card) -> None:
    """Register one environment card; entry points are strings, so nothing is imported.

    ``CardError`` if another environment has its id already.
    """
    kwargs: dict[str, Any] = dict(card.body.get("kwargs", {}))
    entry = card.body.get("use", ENTRY_POINT)
    for env_id in ids_of(card):
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
            vector_entry_point=card.body.get("vector_use", VECTOR_ENTRY_POINT),
            kwargs=kwargs,
            order_enforce=True,
            disable_env_checker=False,
        )


def register_catalog() -> None:
    """Register every card under ``envs/``."""
    for card in cards("envs").values():
        register_card(card)


def env_ids() -> list[str]:
    """All ids registered from the catalogue, aliases included."""
    return [env_id for card in cards("envs").values() for env_id in ids_of(card)]
