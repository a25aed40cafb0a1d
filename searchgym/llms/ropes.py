"""Rotary positions that depend on the longest row of a batch, where a row's numbers would not be
those that it has alone.

``dynamic`` and ``longrope`` (the names of transformers' ``rope_type``) turn positions otherwise
once a row is longer than what the model was trained on: all rows of that batch, and with
``dynamic`` those of later batches, too. Up to that length they are like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import EngineError

_FOLLOW = {"dynamic", "longrope"}


def follows_the_longest(config: Any) -> int | None:
    """Return the number of tokens up to which positions do not depend on other rows; ``None``: they
    never do."""
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(r for r in rope.values() if isinstance(r, Mapping))]
    name = "original_max_position_embeddings"
    limits = [
        r.get(name) or getattr(config, name, None) or config.max_position_embeddings
        for r in ropes
        if r.get("rope_type") in _FOLLOW
    ]
    return min(map(int, limits), default=None)


def check_length(model: Any, tokens: int) -> None:
    """``EngineError`` for a row of so many tokens that would change those beside it."""
    limit = follows_the_longest(model.config)
    if limit is not None and tokens > limit:
        raise EngineError(
            f"{type(model).__name__} turns positions by the longest row of a batch beyond {limit} "
            f"tokens (rope_type dynamic or longrope), and a row has {tokens}: rows would not get "
            "the numbers they have alone. Keep contexts shorter, or load the model with another "
            'rope_type, for instance {"rope_type": "yarn", …}'
        )
