"""Dialects: how a policy's text becomes actions, and how results become text.

``sg.dialects.SearchR1`` and its siblings are there to be subclassed; ``get_dialect`` finds one by
name, import path, table, class or object.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
