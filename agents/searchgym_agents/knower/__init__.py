"""Knowers: small causal LMs trained to recall a chosen share of their world's facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchgym.utils import attach

_WHERE = {
    "knowledge": ("Knowledge",),
    "measures": ("self_search_agent",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .knowledge import Knowledge as Knowledge
    from .measures import self_search_agent as self_search_agent

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
