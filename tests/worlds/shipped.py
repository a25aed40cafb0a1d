"""Shipped worlds in any size."""

from __future__ import annotations

from typing import Any

from searchgym.cards import card
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema
from searchgym.worlds.world import World


def world_from_card(name: str, **overrides: Any) -> World:
    """The world of a shipped card; ``overrides`` replace entries of its ``[world]`` table."""
    options = {**card("corpora", name).body["world"], **overrides}
    for played in ("schema", "refill", "disjoint_names"):
        options.pop(played, None)
    return generate(load_schema(name), **options)
