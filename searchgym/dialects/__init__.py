"""Dialects: how a policy's text becomes actions, and how results become text.

``sg.dialects.SearchR1`` and its siblings are there to be subclassed; ``get_dialect`` finds one by
name, import path, table, class or object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "agentgl": ("AgentGL",),
    "asearcher": ("ASearcher",),
    "base": ("DIALECTS", "Dialect", "View", "get_dialect"),
    "json_tools": ("JsonTools",),
    "plain": ("Plain",),
    "search_r1": ("SearchR1",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .agentgl import AgentGL as AgentGL
    from .asearcher import ASearcher as ASearcher
    from .base import DIALECTS as DIALECTS
    from .base import Dialect as Dialect
    from .base import View as View
    from .base import get_dialect as get_dialect
    from .json_tools import JsonTools as JsonTools
    from .plain import Plain as Plain
    from .search_r1 import SearchR1 as SearchR1

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
