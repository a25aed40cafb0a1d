"""The published orderings that are tested, by name."""

from __future__ import annotations

from collections.abc import Mapping

from .declared import Ordering
from .published_gradients import ARPO, DR_GRPO, MISLED, RLOO, SAN_GRADIENT, SLATE, TREE_GRPO
from .published_learning import A2TGPO, F1, IGPO, MASKED, NOISE, PHASES, PROCESS, SAN
from .published_searching import COSTS, IKEA, SAAS, TRACE

ORDERINGS: Mapping[str, Ordering] = {
    ordering.name: ordering
    for ordering in (
        SLATE, DR_GRPO, RLOO, SAN_GRADIENT, TREE_GRPO, ARPO, MISLED, IGPO, A2TGPO, SAN, MASKED,
        PROCESS, F1, NOISE, PHASES, SAAS, IKEA, TRACE, COSTS,
    )
}  # fmt: skip
"""Orderings by name, those that take seconds first."""
