"""The environment of the rollouts and of the learning: that of the card smollm, but with
questions of several hops, whose episodes are longer."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from searchgym.envs import SearchEnv, search_env

from .setting import CARD

CHAINS = {
    "k": 3, "max_turns": 5,
    "tasks": {"chain-2": 200, "chain-3": 100, "comparison": 60, "at_most": True},
}  # fmt: skip
SMALL = {"world": {"entities": 60, "seed": 1100}, "tasks": {"chain-2": 12}}
"""Of a dry run."""


def card() -> dict[str, Any]:
    """The card's ``[train.rl]`` table."""
    table: dict[str, Any] = tomllib.loads(CARD.read_text(encoding="utf-8"))["train"]["rl"]
    return table


@cache
def env(dry: bool, dialect: str | None = None) -> SearchEnv:
    """The environment, in a smaller world in a dry run."""
    import gymnasium as gym

    import searchgym  # noqa: F401 (registers)

    options = {**card()["set"]["env"], **CHAINS, **(SMALL if dry else {})}
    if dialect is not None:
        options["dialect"] = dialect
    return search_env(gym.make(card()["env"], **options))


def passages(dry: bool) -> tuple[str, ...]:
    """Texts of its corpus."""
    return tuple(f"{p.title} {p.text}" for p in env(dry).setup.corpus)
