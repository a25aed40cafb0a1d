"""Knowledge graphs, generated or imported, and what is computed on them."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
